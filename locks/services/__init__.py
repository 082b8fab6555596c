"""What people and tokens do besides locking: each action changes and audits in one transaction."""
