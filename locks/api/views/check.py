"""Checks names against the leases of others and the policy of the space, without changing anything."""

from typing import cast

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework.request import Request

from locks.api import responses, schemas
from locks.api.base_view import json_response
from locks.api.openapi_hooks import describe
from locks.api.parsing import MAX_BULK_BODY, check_names, decoder
from locks.api.views.bulk import BulkView
from locks.api.views.leases import LockView
from locks.engine import requests
from locks.engine.execution import run
from locks.engine.operations import check

_CHECK = decoder(schemas.CheckBody)


class CheckView(BulkView):
    """Only POST is the check, so that a lock can be named `check`."""

    max_body = MAX_BULK_BODY

    @property
    def allowed_methods(self) -> list[str]:
        """Of the check itself."""
        return ["POST", "OPTIONS"]

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        return LockView.get(cast(LockView, self), request, "check")

    @describe(
        "check",
        "Check names against the leases of others",
        tag="Many locks",
        scope="locks:read",
        body=schemas.CheckBody,
        responses={200: schemas.Checked},
        errors=(400, 404, 410),
        description="For hooks that run before a change. The policy of the space decides: `off` is always `clear`; "
        "`warn` answers `warn` if a lease of another holder overlaps with one of the names; `require` answers `block` "
        "unless leases of the caller cover all of them.",
        examples=[OpenApiExample("changed files", {"names": ["path:src/auth.rs", "path:docs"]}, request_only=True)],
    )
    def post(self, request: Request) -> HttpResponse:
        body = self.body(request, _CHECK)
        self.charge_names(request, body.names)
        names = check_names(body.names, self.rules(request))
        rows = run(
            check(
                requests.Check(
                    names=names, lease_ids=body.lease_ids, session_id=body.session_id, **self.caller(request)
                )
            )
        )
        self.record_use(request, rows[0])
        return json_response(responses.checked(rows))
