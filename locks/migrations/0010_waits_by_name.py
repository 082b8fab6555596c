from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("locks", "0009_quicker_statements")]

    operations = [
        migrations.AddField("minutecontention", "waited", models.BigIntegerField(db_default=0)),
        migrations.AddField("minutecontention", "waited_ms", models.BigIntegerField(db_default=0)),
    ]
