"""Schedules of prescient, over HTTP. Generated from openapi.json by generate.py: do not edit."""

import json
from typing import Any, Literal, NotRequired, TypedDict
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

State = Literal['active', 'paused', 'ended']


class ScheduleFields(TypedDict):
    """A schedule as its owner writes it."""

    id: NotRequired[str]
    crontab: NotRequired[str]
    timezone: NotRequired[str]
    payload: NotRequired[Any]
    deadline: NotRequired[str]
    spread: NotRequired[str]
    misfire: NotRequired[Literal['all', 'latest', 'skip']]
    anchor: NotRequired[str]
    paused: NotRequired[bool]
    deadline_from: NotRequired[Literal['instant', 'slot']]
    start: NotRequired[str]
    end: NotRequired[str]
    max_runs: NotRequired[int]
    exclude: NotRequired[list[str]]


class NewSchedule(TypedDict):
    id: str
    crontab: str
    timezone: NotRequired[str]
    payload: NotRequired[Any]
    deadline: NotRequired[str]
    spread: NotRequired[str]
    misfire: NotRequired[Literal['all', 'latest', 'skip']]
    anchor: NotRequired[str]
    paused: NotRequired[bool]
    deadline_from: NotRequired[Literal['instant', 'slot']]
    start: NotRequired[str]
    end: NotRequired[str]
    max_runs: NotRequired[int]
    exclude: NotRequired[list[str]]


class ScheduleReplacement(TypedDict):
    id: NotRequired[str]
    crontab: str
    timezone: NotRequired[str]
    payload: NotRequired[Any]
    deadline: NotRequired[str]
    spread: NotRequired[str]
    misfire: NotRequired[Literal['all', 'latest', 'skip']]
    anchor: NotRequired[str]
    paused: NotRequired[bool]
    deadline_from: NotRequired[Literal['instant', 'slot']]
    start: NotRequired[str]
    end: NotRequired[str]
    max_runs: NotRequired[int]
    exclude: NotRequired[list[str]]


class SchedulePatch(TypedDict):
    id: NotRequired[str]
    crontab: NotRequired[str | None]
    timezone: NotRequired[str | None]
    payload: NotRequired[Any]
    deadline: NotRequired[str | None]
    spread: NotRequired[str | None]
    misfire: NotRequired[Literal['all', 'latest', 'skip', None]]
    anchor: NotRequired[str | None]
    paused: NotRequired[bool | None]
    deadline_from: NotRequired[Literal['instant', 'slot', None]]
    start: NotRequired[str | None]
    end: NotRequired[str | None]
    max_runs: NotRequired[int | None]
    exclude: NotRequired[list[str] | None]


class Schedule(TypedDict):
    id: str
    crontab: str
    timezone: str
    payload: Any
    deadline: str
    spread: str
    misfire: Literal['all', 'latest', 'skip']
    anchor: str
    paused: bool
    deadline_from: NotRequired[Literal['instant', 'slot']]
    start: NotRequired[str]
    end: NotRequired[str]
    max_runs: NotRequired[int]
    exclude: NotRequired[list[str]]
    state: State
    version: int
    next: str | None
    slot: str | None
    last: NotRequired[str]
    runs: NotRequired[int]
    dropped: int
    error_count: int
    last_error: str
    publishing_paused_at: str | None
    created_at: str
    updated_at: str


class SchedulePage(TypedDict):
    schedules: list[Schedule]
    after: str | None


class ChangedSchedule(TypedDict):
    """The whole schedule; for a deletion its id."""

    id: str
    crontab: NotRequired[str]
    timezone: NotRequired[str]
    payload: NotRequired[Any]
    deadline: NotRequired[str]
    spread: NotRequired[str]
    misfire: NotRequired[Literal['all', 'latest', 'skip']]
    anchor: NotRequired[str]
    paused: NotRequired[bool]
    deadline_from: NotRequired[Literal['instant', 'slot']]
    start: NotRequired[str]
    end: NotRequired[str]
    max_runs: NotRequired[int]
    exclude: NotRequired[list[str]]


class Change(TypedDict):
    action: Literal['create', 'update', 'delete']
    schedule: ChangedSchedule
    version: NotRequired[int]


class Changes(TypedDict):
    changes: list[Change]


class FieldError(TypedDict):
    field: str
    rule: str


class ChangeError(TypedDict):
    title: str
    status: int
    detail: str
    errors: NotRequired[list[FieldError]]
    index: int
    id: str


class ChangesResult(TypedDict):
    done: int
    failed: int
    errors: list[ChangeError]


class ProblemFields(TypedDict):
    title: str
    status: int
    detail: str
    errors: NotRequired[list[FieldError]]


class Problem(TypedDict):
    """A problem of RFC 9457."""

    title: str
    status: int
    detail: str
    errors: NotRequired[list[FieldError]]


class Instant(TypedDict):
    instant: str
    slot: str
    local: str


class Preview(TypedDict):
    instants: list[Instant]
    more: bool


class ProblemError(Exception):
    """What the server has refused, and why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem["detail"])
        self.problem = problem


class Client:
    """A client of the API. It holds no connection; timeout is in seconds."""

    def __init__(self, url: str, token: str, timeout: float = 60) -> None:
        self._url, self._token, self._timeout = url.rstrip("/"), token, timeout

    def _call(
        self, method: str, path: str, query: dict[str, Any], headers: dict[str, str | None], body: Any = None, media: str = ""
    ) -> Any:
        given = urlencode({name: value for name, value in query.items() if value is not None})
        request = Request(self._url + path + (f"?{given}" if given else ""), method=method)
        request.add_header("Authorization", f"Bearer {self._token}")
        for name, value in headers.items():
            if value is not None:
                request.add_header(name, value)
        if media:
            request.add_header("Content-Type", media)
            request.data = json.dumps(body).encode()
        try:
            with urlopen(request, timeout=self._timeout) as response:
                text = response.read()
        except HTTPError as error:
            with error:
                if "problem+json" not in error.headers.get("Content-Type", ""):
                    raise
                raise ProblemError(json.load(error)) from None
        return json.loads(text) if text else None

    def list_schedules(self, *, prefix: str | None = None, state: State | None = None, after: str | None = None, limit: int | None = None) -> SchedulePage:
        """A page of schedules, in the order of their ids, byte by byte."""
        return self._call('GET', "/schedules", {"prefix": prefix, "state": state, "after": after, "limit": limit}, {})

    def create_schedule(self, body: NewSchedule) -> Schedule:
        """Create a schedule."""
        return self._call('POST', "/schedules", {}, {}, body, 'application/json')

    def get_schedule(self, id: str) -> Schedule:
        """One schedule."""
        return self._call('GET', f"/schedules/{quote(id, safe='')}", {}, {})

    def replace_schedule(self, id: str, body: ScheduleReplacement, *, if_match: str | None = None) -> Schedule:
        """Replace a schedule. Without an anchor, the current one stays."""
        return self._call('PUT', f"/schedules/{quote(id, safe='')}", {}, {"If-Match": if_match}, body, 'application/json')

    def patch_schedule(self, id: str, body: SchedulePatch, *, if_match: str | None = None) -> Schedule:
        """Change the given fields by RFC 7396: null sets a field to its default."""
        return self._call('PATCH', f"/schedules/{quote(id, safe='')}", {}, {"If-Match": if_match}, body, 'application/merge-patch+json')

    def delete_schedule(self, id: str, *, if_match: str | None = None) -> None:
        """Delete a schedule."""
        return self._call('DELETE', f"/schedules/{quote(id, safe='')}", {}, {"If-Match": if_match})

    def pause_schedule(self, id: str, *, if_match: str | None = None) -> Schedule:
        """Stop the events of a schedule until it is resumed."""
        return self._call('POST', f"/schedules/{quote(id, safe='')}/pause", {}, {"If-Match": if_match})

    def resume_schedule(self, id: str, *, if_match: str | None = None) -> Schedule:
        """End a pause. The next instant is the first one after now."""
        return self._call('POST', f"/schedules/{quote(id, safe='')}/resume", {}, {"If-Match": if_match})

    def change_schedules(self, body: Changes) -> ChangesResult:
        """Create, update and delete many schedules."""
        return self._call('POST', "/changes", {}, {}, body, 'application/json')

    def preview_crontab(self, *, crontab: str, from_: str, to: str, timezone: str | None = None, anchor: str | None = None, limit: int | None = None) -> Preview:
        """The instants of a crontab, from one instant up to and including another."""
        return self._call('GET', "/preview", {"crontab": crontab, "timezone": timezone, "anchor": anchor, "from": from_, "to": to, "limit": limit}, {})

    def describe(self) -> dict[str, Any]:
        """This document."""
        return self._call('GET', "/openapi.json", {}, {})
