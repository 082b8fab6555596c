"""How django-allauth meets the rest: who gets in, by which way, and what is asked of them."""
