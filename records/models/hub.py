"""Checks early that a model of the Hugging Face hub can be downloaded.

Without this check transformers would query the hub only when a stage loads the model, after games
were made, and for 40 seconds.
"""

from __future__ import annotations

from pathlib import Path

from turngrid.records.models.locate import ModelError, local_folder

SECONDS = 8.0  # limit of each request


def check_hub(path: str) -> None:
    """Check that ``path`` is on this machine, in a folder or in the hub's cache, or can be
    downloaded.

    Raises:
        ModelError: the hub has no such model, needs a token for it, or cannot be reached.
    """
    if "://" in path or Path(path).is_dir() or local_folder(path):
        return
    if problem := _problem(path):
        raise ModelError(f"model.path={path}: {problem}; use model.path=FOLDER, a folder with the model")


def _problem(name: str) -> str | None:
    """Return why the model cannot be downloaded."""
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, HFValidationError, RepositoryNotFoundError

    try:
        if isinstance(try_to_load_from_cache(name, "config.json"), str):
            return None
        if constants.HF_HUB_OFFLINE:
            return f"not in {constants.HF_HUB_CACHE} and HF_HUB_OFFLINE is set"
        get_hf_file_metadata(hf_hub_url(name, "config.json"), timeout=SECONDS)
    except HFValidationError:
        return "neither a folder nor a name of the Hugging Face hub"
    except GatedRepoError:
        return f"access must be granted at {constants.ENDPOINT}/{name}, then set HF_TOKEN"
    except RepositoryNotFoundError:
        return "the Hugging Face hub has no model of this name (a private one needs HF_TOKEN)"
    except HfHubHTTPError as error:
        return f"the Hugging Face hub answers {' '.join(str(error).splitlines()[0].split())}"
    except Exception as error:  # noqa: BLE001 - no network: the error depends on the client library
        return f"the Hugging Face hub cannot be reached ({error})"
    return None
