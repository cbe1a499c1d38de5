"""Changes that pykernels makes in the packages of the engines."""

from __future__ import annotations

from typing import Any

from pykernels.errors import FeatureError

__all__ = ["allow_late_configuration", "mark_ended"]


def allow_late_configuration(module: Any, device: Any) -> None:
    """Let other packages request features that the default device has, after we made it.

    wgpu refuses to configure its default device once the device exists, and an import of pygfx
    configures the default device. Without this function, pygfx could not be imported after our
    first call.
    """

    def configure(caller_info: str, **wanted: Any) -> None:
        asked = {k: wanted.pop(k, None) or () for k in ("required_features", "preferred_features")}
        features = {str(f).lower().replace("_", "-") for names in asked.values() for f in names}
        missing = sorted(features - set(device.features))
        missing += sorted(k for k, v in wanted.items() if v is not None)
        if missing:
            raise FeatureError(
                f"[default_device] {caller_info} asks wgpu's default device for "
                f"{', '.join(missing)}, but pykernels has made it already: import and configure "
                f"{caller_info} before the first call of pykernels"
            )

    for place in (module, module.utils, module.utils.device):
        place.preconfigure_default_device = configure


def mark_ended(passes: Any) -> None:
    """Let a pass remember that it has ended; Dawn reports it only when the encoder is finished."""
    end = passes.end

    def marked(self: Any) -> None:
        end(self)
        self._pykernels_ended = True

    passes.end = marked
