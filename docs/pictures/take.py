"""Takes the pictures of the README from the running product, so that they are never old.

python manage.py create_demo --password <password> --play &
python docs/pictures/take.py http://127.0.0.1:8000 <password>
"""

import argparse
import sys
from pathlib import Path

from playwright.sync_api import Page, ViewportSize, sync_playwright

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))

from tests.browser import chromium  # noqa: E402  -- needs the path above

SPACE = "/ui/harbor/production/"
SIZE: ViewportSize = {"width": 1280, "height": 800}
NARROW: ViewportSize = {"width": 360, "height": 780}


def sign_in(page: Page, password: str) -> None:
    page.goto("/ui/sign-in")
    page.get_by_label("User name or e-mail").fill("olga")
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/ui/")


def take(page: Page, name: str) -> None:
    page.get_by_text("Live", exact=True).wait_for()
    page.evaluate("document.fonts.ready")
    page.screenshot(path=HERE / f"{name}.png")


def take_all(page: Page, theme: str) -> None:
    page.goto(SPACE)
    take(page, f"now-{theme}")
    page.goto(f"{SPACE}locks/deploy/api")
    take(page, f"lock-{theme}")
    page.get_by_role("link", name="Force-release…").click()
    page.get_by_role("dialog").wait_for()
    page.get_by_label("Reason").fill("hotfix must go out, checked with the holder")
    take(page, f"force-release-{theme}")
    page.goto(f"{SPACE}activity")
    take(page, f"activity-{theme}")
    page.goto(f"{SPACE}contention?span=7d")
    take(page, f"contention-{theme}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("password")
    arguments = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.find(), args=list(chromium.ARGUMENTS))
        for theme in ("light", "dark"):
            context = browser.new_context(base_url=arguments.url, viewport=SIZE, device_scale_factor=2)
            context.add_cookies([{"name": "octo_theme", "value": theme, "url": arguments.url}])
            page = context.new_page()
            sign_in(page, arguments.password)
            take_all(page, theme)
            page.set_viewport_size(NARROW)
            page.goto(SPACE)
            take(page, f"now-narrow-{theme}")
            context.close()
        browser.close()


if __name__ == "__main__":
    main()
