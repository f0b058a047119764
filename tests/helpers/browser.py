"""Chromium without a window, for tests of pages; they are skipped only where it is missing."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
needs_chromium = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="needs Chromium and its driver: apt-get install chromium chromium-driver"
)


@contextmanager
def browser(width: int = 1400, height: int = 900) -> Iterator[Any]:
    """A browser of that size, which keeps what its console says."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(word)
    options.add_argument(f"--window-size={width},{height}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))
    try:
        driver.set_script_timeout(20)
        yield driver
    finally:
        driver.quit()


def wait_for(driver: Any, script: str, seconds: float = 20.0) -> Any:
    """What a script returns, once it is true."""
    end = time.monotonic() + seconds
    while not (found := driver.execute_script(f"return {script}")):
        assert time.monotonic() < end, (script, driver.get_log("browser"))
        time.sleep(0.05)
    return found
