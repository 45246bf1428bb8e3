"""How a trace comes to be: sessions, backends, and what turns records into tables."""

from gpuviz.capture.backend import Backend, CaptureRequest, CellSource, choose_backend
from gpuviz.capture.session import Session, active_session, profile, region, step, use_cells

__all__ = [
    "Backend",
    "CaptureRequest",
    "CellSource",
    "Session",
    "active_session",
    "choose_backend",
    "profile",
    "region",
    "step",
    "use_cells",
]
