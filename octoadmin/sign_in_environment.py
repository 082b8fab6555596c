"""The settings of sign-in methods: providers, one-time codes, passkeys. Each is off until it is set up here."""

from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode


def split(value: Any) -> Any:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


CommaSeparated = BeforeValidator(split)


class SignInEnvironment(BaseSettings):
    octo_one_time_codes: bool = Field(
        False, description="People may protect their account with one-time codes of an authenticator app (TOTP)."
    )
    octo_passkeys: bool = Field(
        False,
        description="People may sign in with passkeys (WebAuthn) and use them as a second factor. Browsers want https "
        "and a host name for it, or `localhost`.",
    )
    octo_require_second_factor: Literal["none", "admins"] = Field(
        "none",
        description="`admins`: team admins and superusers have read-only access until they have a second factor. Needs "
        "`OCTO_ONE_TIME_CODES` or `OCTO_PASSKEYS`.",
    )
    octo_github_client_id: str = Field(
        "", description="Client id of an OAuth app on GitHub. Set: people can sign in with GitHub."
    )
    octo_github_client_secret: str = Field("", repr=False, description="Its client secret.")
    octo_github_client_secret_file: Path | None = Field(None, description="Or the file that contains it.")
    octo_github_url: str = Field(
        "https://github.com", description="Of a GitHub Enterprise server, if it is not GitHub's."
    )
    octo_oidc_issuer: str = Field(
        "",
        description="Issuer URL of an OpenID Connect provider, where `/.well-known/openid-configuration` is. Set: "
        "people can sign in with it.",
    )
    octo_oidc_client_id: str = Field("", description="Client id at that provider.")
    octo_oidc_client_secret: str = Field("", repr=False, description="Its client secret.")
    octo_oidc_client_secret_file: Path | None = Field(None, description="Or the file that contains it.")
    octo_oidc_name: str = Field("Single sign-on", description="What the button says after “Sign in with”.")
    octo_sign_up_domains: Annotated[list[str], NoDecode, CommaSeparated] = Field(
        [],
        description="E-mail domains, separated by commas. A provider's user with a verified address in one of them "
        "gets an account, in no team. Empty: only existing and invited users can sign in.",
    )

    @field_validator("octo_github_url", "octo_oidc_issuer")
    @classmethod
    def _https(cls, url: str) -> str:
        parts = urlsplit(url)
        if url and not (parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(parts.hostname))):
            raise ValueError("expected https://…; plain http is for loopback only")
        return url.rstrip("/")

    @model_validator(mode="after")
    def _sign_in_methods_are_complete(self) -> "SignInEnvironment":
        problems = []
        if self.octo_github_client_id and not self.github_secret:
            problems.append("OCTO_GITHUB_CLIENT_SECRET: must be set together with OCTO_GITHUB_CLIENT_ID")
        if self.octo_oidc_issuer and not (self.octo_oidc_client_id and self.oidc_secret):
            problems.append(
                "OCTO_OIDC_CLIENT_ID: must be set together with OCTO_OIDC_ISSUER, and OCTO_OIDC_CLIENT_SECRET too"
            )
        if self.octo_require_second_factor == "admins" and not (self.octo_one_time_codes or self.octo_passkeys):
            problems.append("OCTO_REQUIRE_SECOND_FACTOR: needs OCTO_ONE_TIME_CODES or OCTO_PASSKEYS to be true")
        if problems:
            raise ValueError("\n".join(problems))
        return self

    @property
    def github_secret(self) -> str:
        return self.octo_github_client_secret or _contents(self.octo_github_client_secret_file)

    @property
    def oidc_secret(self) -> str:
        return self.octo_oidc_client_secret or _contents(self.octo_oidc_client_secret_file)


def _contents(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        return path.read_text().strip()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None


def _is_loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False
