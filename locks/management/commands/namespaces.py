"""`manage.py namespaces`: shows and changes the namespaces and the lock policy of a space."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from locks.management.commands.issue_token import find_space
from locks.models.space import LockPolicy
from locks.services import namespaces as service
from locks.services.audit import Actor


class Command(BaseCommand):
    help = "Shows the namespaces and the lock policy of a space, after the given changes."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--team", default="demo", help="the team's slug (default: demo)")
        parser.add_argument("--space", default="main", help="the space's slug (default: main)")
        parser.add_argument(
            "--set",
            dest="rules",
            action="append",
            default=[],
            metavar="NAMESPACE:=RULE",
            help="add a namespace, or change its rule to exact, tree or all; may be repeated",
        )
        parser.add_argument(
            "--remove", dest="removed", action="append", default=[], metavar="NAMESPACE:", help="may be repeated"
        )
        parser.add_argument("--policy", choices=LockPolicy.values, help="what a check of names answers")

    def handle(self, **options: Any) -> None:
        space = find_space(team=options["team"], space=options["space"])
        changed = dict(space.namespaces)
        for text in options["rules"]:
            namespace, _, rule = text.partition("=")
            changed[namespace] = rule
        for namespace in options["removed"]:
            if changed.pop(namespace, None) is None:
                raise CommandError(f"{space} has no namespace '{namespace}'.")
        policy = options["policy"] or space.lock_policy
        try:
            service.change(actor=Actor.of_shell(), by=None, space=space, namespaces=changed, lock_policy=policy)
        except service.InvalidNamespace as error:
            raise CommandError(str(error)) from None
        for namespace, rule in sorted(changed.items()):
            self.stdout.write(f"{namespace} {rule}")
        self.stdout.write(f"policy {policy}")
        for name, other in service.overlapping_leases(space=space, namespaces=changed):
            self.stderr.write(f"{name} and {other} overlap and are both held.")
