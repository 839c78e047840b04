"""Download a repository of the Hugging Face hub, or find it in the hub's cache."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from regard.errors import CallError, RegardError, pip_install


def snapshot(name: str, wanted: Sequence[str], kind: Literal["model", "dataset"] = "model") -> Path:
    """Return a folder with the files of OWNER/NAME that match a pattern of `wanted`. None of them is executed."""
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
    except ModuleNotFoundError:
        raise CallError(
            f"hub:{name} needs huggingface_hub, which is not installed: {pip_install('huggingface_hub')}"
        ) from None
    try:
        return Path(snapshot_download(name, repo_type=kind, allow_patterns=list(wanted)))
    except HFValidationError as error:
        raise CallError(f"{name!r} is not a local folder or a name on the hub: {error}") from None
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise RegardError(
            f"cannot download the {kind} {name} from the hub: {str(error).splitlines()[0]}; "
            "it needs a network, or an earlier download in its cache (HF_HOME)"
        ) from None
