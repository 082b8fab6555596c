"""django-allauth, reduced to what is used: no sign-up page, no mails, none of its rate limits, no stored tokens.

Its stages decide when a second factor is required, its providers talk to GitHub and OpenID Connect, and its
authenticators check codes and passkeys. Pages, throttling and audit are ours.
"""

from datetime import timedelta
from typing import Any

from octoadmin.environment import environment

_ENVIRONMENT = environment()

ONE_TIME_CODES = _ENVIRONMENT.octo_one_time_codes
PASSKEYS = _ENVIRONMENT.octo_passkeys
SECOND_FACTOR_FOR_ADMINS = _ENVIRONMENT.octo_require_second_factor == "admins"
SIGN_UP_DOMAINS = [domain.lower().lstrip("@") for domain in _ENVIRONMENT.octo_sign_up_domains]
# The display name of each configured provider, by its name in URLs.
PROVIDERS: dict[str, str] = {}

ACCOUNT_ADAPTER = "locks.dashboard.auth.adapter.AccountAdapter"
ACCOUNT_LOGIN_METHODS = {"username", "email"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "email*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_RATE_LIMITS = False
ACCOUNT_LOGIN_TIMEOUT = int(timedelta(minutes=10).total_seconds())

MFA_ADAPTER = "locks.dashboard.mfa.adapter.MfaAdapter"
MFA_SUPPORTED_TYPES = [
    *(["totp"] if ONE_TIME_CODES else []),
    *(["webauthn"] if PASSKEYS else []),
    *(["recovery_codes"] if ONE_TIME_CODES or PASSKEYS else []),
]
MFA_PASSKEY_LOGIN_ENABLED = PASSKEYS
MFA_WEBAUTHN_USER_VERIFICATION = "required"
MFA_ALLOW_UNVERIFIED_EMAIL = True
MFA_REAUTHENTICATION_REQUIRED = False
MFA_RATE_LIMITS = False
MFA_TOTP_ISSUER = "Octoadmin"
# A phone's clock may be half a minute off.
MFA_TOTP_TOLERANCE = 1
MFA_RECOVERY_CODE_DIGITS = 10

SOCIALACCOUNT_ADAPTER = "locks.dashboard.social_accounts.adapter.SocialAccountAdapter"
SOCIALACCOUNT_QUERY_EMAIL = True
SOCIALACCOUNT_STORE_TOKENS = False
SOCIALACCOUNT_REQUESTS_TIMEOUT = 5
SOCIALACCOUNT_PROVIDERS: dict[str, Any] = {}
SIGN_IN_APPS = ["octoadmin.apps.AccountsConfig", "allauth.mfa", "allauth.socialaccount"]

if _ENVIRONMENT.octo_github_client_id:
    PROVIDERS["github"] = "GitHub"
    SIGN_IN_APPS.append("allauth.socialaccount.providers.github")
    SOCIALACCOUNT_PROVIDERS["github"] = {
        "APP": {"client_id": _ENVIRONMENT.octo_github_client_id, "secret": _ENVIRONMENT.github_secret},
        "OAUTH_PKCE_ENABLED": True,
        "SCOPE": ["read:user", "user:email"],
    }
    if _ENVIRONMENT.octo_github_url != "https://github.com":
        SOCIALACCOUNT_PROVIDERS["github"]["GITHUB_URL"] = _ENVIRONMENT.octo_github_url

if _ENVIRONMENT.octo_oidc_issuer:
    PROVIDERS["openid"] = _ENVIRONMENT.octo_oidc_name
    SIGN_IN_APPS.append("allauth.socialaccount.providers.openid_connect")
    SOCIALACCOUNT_PROVIDERS["openid_connect"] = {
        "APPS": [
            {
                "provider_id": "openid",
                "name": _ENVIRONMENT.octo_oidc_name,
                "client_id": _ENVIRONMENT.octo_oidc_client_id,
                "secret": _ENVIRONMENT.oidc_secret,
                "settings": {"server_url": _ENVIRONMENT.octo_oidc_issuer, "oauth_pkce_enabled": True},
            }
        ]
    }
