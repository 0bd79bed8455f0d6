"""Checks early that a model of the Hugging Face hub can be downloaded.

Without this check transformers would query the hub only when a stage loads the model, after games
were made, and for 40 seconds.
"""

from __future__ import annotations

from pathlib import Path
from threading import Thread
from typing import Any

from turngrid.records.models.locate import ModelError, local_folder

SECONDS = 8.0  # limit of the whole check in seconds, since a host name look-up has no timeout
ELSEWHERE = "use model.path=FOLDER, a folder with the model"


def check_hub(path: str) -> None:
    """Check that ``path`` is on this machine, in a folder or in the hub's cache, or can be
    downloaded.

    Raises:
        ModelError: the hub has no such model, needs a token for it, or cannot be reached.
    """
    if "://" in path or Path(path).is_dir() or local_folder(path):
        return
    from huggingface_hub import constants, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        if isinstance(try_to_load_from_cache(path, "config.json"), str):
            return
    except HFValidationError as error:
        raise ModelError(
            f"model.path={path}: neither a folder nor a name of the Hugging Face hub; use model.path=ORG/NAME"
        ) from error
    if constants.HF_HUB_OFFLINE:
        raise ModelError(f"model.path={path}: not in {constants.HF_HUB_CACHE} and HF_HUB_OFFLINE is set; {ELSEWHERE}")
    if problem := _within(SECONDS, path):
        raise ModelError(f"model.path={path}: {problem}; {ELSEWHERE}")


def _within(seconds: float, name: str) -> str | None:
    """Return why the model cannot be downloaded.

    If the hub does not answer, the querying thread is left running.
    """
    problems: list[str | None] = []
    thread = Thread(target=lambda: problems.append(_problem(name, seconds)), daemon=True)
    thread.start()
    thread.join(seconds)
    return problems[0] if problems else f"the Hugging Face hub did not answer within {seconds:g} s"


def _problem(name: str, seconds: float) -> str | None:
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError

    request: Any = get_hf_file_metadata
    try:
        request(hf_hub_url(name, "config.json"), timeout=seconds)
    except GatedRepoError:
        return f"access must be granted at {constants.ENDPOINT}/{name}, then set HF_TOKEN"
    except RepositoryNotFoundError:
        return "the Hugging Face hub has no model of this name (a private one needs HF_TOKEN)"
    except HfHubHTTPError as error:
        return f"the Hugging Face hub answers {' '.join(str(error).splitlines()[0].split())}"
    except Exception as error:  # noqa: BLE001 - no network: the error depends on the client library
        return f"the Hugging Face hub cannot be reached ({error})"
    return None
