"""A certificate authority for one test, and the certificates it gives out."""

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass
class Authority:
    """`folder` gets the authority's own certificate, and those of the servers with their keys."""

    folder: Path

    def __post_init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named("a test's authority")
        signed = _certificate(self._name, self._name, self._key, self._key, is_authority=True)
        self.file = self.folder / "authority.pem"
        self.file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))

    def server(self, host: str, *, expired: bool = False, self_signed: bool = False) -> ssl.SSLContext:
        """What a server for this host presents."""
        key, name = ec.generate_private_key(ec.SECP256R1()), _named(host)
        issuer, signer = (name, key) if self_signed else (self._name, self._key)
        signed = _certificate(name, issuer, key, signer, host=host, expired=expired)
        file = self.folder / f"{host}.pem"
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + signed.public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey, *,
    host: str | None = None, is_authority: bool = False, expired: bool = False,
) -> x509.Certificate:  # fmt: skip
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(now + timedelta(days=-1 if expired else 1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if is_authority:
        signs = {"key_cert_sign": True, "crl_sign": True}
        others = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
                  "encipher_only", "decipher_only")  # fmt: skip
        builder = builder.add_extension(x509.KeyUsage(**signs, **dict.fromkeys(others, False)), critical=True)
    if host is not None:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
    return builder.sign(signer, hashes.SHA256())
