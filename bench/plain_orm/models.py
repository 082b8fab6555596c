"""Token, lock and history, each with the indexes that its queries need."""

from typing import ClassVar

from django.db import models


class Token(models.Model):
    digest = models.CharField(max_length=64, unique=True)
    name = models.CharField(max_length=100)
    can_write = models.BooleanField(default=True)
    objects: ClassVar[models.Manager["Token"]] = models.Manager()


class Lock(models.Model):
    name = models.CharField(max_length=256, unique=True)
    lease_id = models.UUIDField(null=True)
    owner = models.CharField(max_length=128, null=True)
    metadata = models.TextField(null=True)
    fencing_token = models.BigIntegerField(default=0)
    acquired_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True)
    objects: ClassVar[models.Manager["Lock"]] = models.Manager()


class Event(models.Model):
    at = models.DateTimeField(auto_now_add=True, db_index=True)
    kind = models.CharField(max_length=20)
    lock = models.ForeignKey(Lock, on_delete=models.CASCADE)
    owner = models.CharField(max_length=128)
    fencing_token = models.BigIntegerField()
    objects: ClassVar[models.Manager["Event"]] = models.Manager()
