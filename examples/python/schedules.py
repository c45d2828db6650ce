"""Schedules of prescient, over HTTP. Generated from the OpenAPI document by generate.py: do not edit."""

import json
from typing import Any, Literal, NotRequired, TypedDict
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

class ChangedSchedule(TypedDict):
    """The whole schedule; for a deletion its id."""

    anchor: NotRequired[str]
    crontab: NotRequired[str]
    deadline: NotRequired[str]
    deadline_from: NotRequired[Literal['instant', 'slot']]
    end: NotRequired[str]
    exclude: NotRequired[list[str]]
    id: str
    max_runs: NotRequired[int]
    misfire: NotRequired[Literal['all', 'latest', 'skip']]
    paused: NotRequired[bool]
    payload: NotRequired[dict[str, Any] | list[Any] | str | float | bool | None]
    spread: NotRequired[str]
    start: NotRequired[str]
    timezone: NotRequired[str]


class Change(TypedDict):
    """Change is one change of a bulk request."""

    action: Literal['create', 'update', 'delete']
    schedule: ChangedSchedule
    version: NotRequired[int]


class FieldError(TypedDict):
    """FieldError is an invalid field, and the rule that it breaks."""

    field: str
    rule: str


class ChangeError(TypedDict):
    """ChangeError is a change that was not made."""

    detail: str
    errors: NotRequired[list[FieldError]]
    id: str
    index: int
    status: int
    title: str


class Changes(TypedDict):
    """Changes is the body of a bulk request."""

    changes: list[Change]


class ChangesResult(TypedDict):
    """ChangesResult is the answer to a bulk request."""

    done: int
    errors: list[ChangeError]
    failed: int


class PreviewedInstant(TypedDict):
    instant: str
    local: str
    slot: str


class CrontabPreview(TypedDict):
    """CrontabPreview lists instants of a crontab, and says whether more follow."""

    instants: list[PreviewedInstant]
    more: bool


class Instant(TypedDict):
    """Instant is an instant of a schedule, and the slot that publishes it."""

    instant: str
    slot: str


class NewSchedule(TypedDict):
    """NewSchedule is a schedule to create."""

    anchor: NotRequired[str]
    crontab: str
    deadline: NotRequired[str]
    deadline_from: NotRequired[Literal['instant', 'slot']]
    end: NotRequired[str]
    exclude: NotRequired[list[str]]
    id: str
    max_runs: NotRequired[int]
    misfire: NotRequired[Literal['all', 'latest', 'skip']]
    paused: NotRequired[bool]
    payload: NotRequired[dict[str, Any] | list[Any] | str | float | bool | None]
    spread: NotRequired[str]
    start: NotRequired[str]
    timezone: NotRequired[str]


class Problem(TypedDict):
    """Problem is an error in the form of RFC 9457."""

    detail: str
    errors: NotRequired[list[FieldError]]
    status: int
    title: str


class Schedule(TypedDict):
    """Schedule is a schedule as JSON, in the answers of the API and of the command line."""

    anchor: NotRequired[str]
    created_at: str
    crontab: str
    deadline: str
    deadline_from: NotRequired[Literal['instant', 'slot']]
    dropped: int
    end: NotRequired[str]
    error_count: int
    exclude: NotRequired[list[str]]
    id: str
    job: NotRequired[str]
    last: NotRequired[str]
    last_error: str
    max_runs: NotRequired[int]
    misfire: Literal['all', 'latest', 'skip']
    next: str | None
    notify: NotRequired[str]
    paused: bool
    paused_at: NotRequired[str]
    paused_by: NotRequired[str]
    payload: dict[str, Any] | list[Any] | str | float | bool | None
    publishing_paused_at: str | None
    role: NotRequired[str]
    rows: NotRequired[int]
    runs: NotRequired[int]
    slot: str | None
    spread: str
    sql: NotRequired[str]
    start: NotRequired[str]
    state: Literal['active', 'paused', 'ended']
    text: NotRequired[str]
    timeout: NotRequired[str]
    timezone: str
    updated_at: str
    version: int


class ScheduleDetail(TypedDict):
    """ScheduleDetail is a schedule with its next instants."""

    anchor: NotRequired[str]
    coming: list[Instant]
    created_at: str
    crontab: str
    deadline: str
    deadline_from: NotRequired[Literal['instant', 'slot']]
    dropped: int
    end: NotRequired[str]
    error_count: int
    exclude: NotRequired[list[str]]
    id: str
    job: NotRequired[str]
    last: NotRequired[str]
    last_error: str
    max_runs: NotRequired[int]
    misfire: Literal['all', 'latest', 'skip']
    next: str | None
    notify: NotRequired[str]
    overdue: list[Instant]
    paused: bool
    paused_at: NotRequired[str]
    paused_by: NotRequired[str]
    payload: dict[str, Any] | list[Any] | str | float | bool | None
    publishing_paused_at: str | None
    role: NotRequired[str]
    rows: NotRequired[int]
    runs: NotRequired[int]
    slot: str | None
    spread: str
    sql: NotRequired[str]
    start: NotRequired[str]
    state: Literal['active', 'paused', 'ended']
    text: NotRequired[str]
    timeout: NotRequired[str]
    timezone: str
    updated_at: str
    version: int


class SchedulePage(TypedDict):
    """SchedulePage is a page of schedules."""

    after: str | None
    schedules: list[Schedule]


class SchedulePatch(TypedDict):
    """SchedulePatch has the fields to change. Null is the default of a field. An object is merged with the current payload, member by member. Any other value replaces it."""

    anchor: NotRequired[str | None]
    crontab: NotRequired[str | None]
    deadline: NotRequired[str | None]
    deadline_from: NotRequired[Literal['instant', 'slot'] | None]
    end: NotRequired[str | None]
    exclude: NotRequired[list[str] | None]
    id: NotRequired[str | None]
    max_runs: NotRequired[int | None]
    misfire: NotRequired[Literal['all', 'latest', 'skip'] | None]
    paused: NotRequired[bool | None]
    payload: NotRequired[dict[str, Any] | list[Any] | str | float | bool | None | None]
    spread: NotRequired[str | None]
    start: NotRequired[str | None]
    timezone: NotRequired[str | None]


class ScheduleReplacement(TypedDict):
    """ScheduleReplacement has the new fields of a schedule."""

    anchor: NotRequired[str]
    crontab: str
    deadline: NotRequired[str]
    deadline_from: NotRequired[Literal['instant', 'slot']]
    end: NotRequired[str]
    exclude: NotRequired[list[str]]
    id: NotRequired[str]
    max_runs: NotRequired[int]
    misfire: NotRequired[Literal['all', 'latest', 'skip']]
    paused: NotRequired[bool]
    payload: NotRequired[dict[str, Any] | list[Any] | str | float | bool | None]
    spread: NotRequired[str]
    start: NotRequired[str]
    timezone: NotRequired[str]


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

    def preview_crontab(self, *, crontab: str, from_: str, to: str, timezone: str | None = None, anchor: str | None = None, limit: int | None = None) -> CrontabPreview:
        """The instants of a crontab from one instant on, and before another."""
        return self._call('GET', "/crontab-preview", {"crontab": crontab, "timezone": timezone, "anchor": anchor, "from": from_, "to": to, "limit": limit}, {})

    def describe(self) -> dict[str, Any]:
        """This document."""
        return self._call('GET', "/openapi.json", {}, {})

    def change_schedules(self, body: Changes) -> ChangesResult:
        """Create, update and delete many schedules."""
        return self._call('POST', "/schedule-changes", {}, {}, body, 'application/json')

    def list_schedules(self, *, prefix: str | None = None, state: Literal['active', 'paused', 'ended'] | None = None, after: str | None = None, limit: int | None = None) -> SchedulePage:
        """A page of schedules, in the order of their ids, byte by byte."""
        return self._call('GET', "/schedules", {"prefix": prefix, "state": state, "after": after, "limit": limit}, {})

    def create_schedule(self, body: NewSchedule) -> Schedule:
        """Create a schedule."""
        return self._call('POST', "/schedules", {}, {}, body, 'application/json')

    def delete_schedule(self, id: str, *, if_match: str | None = None) -> None:
        """Delete a schedule."""
        return self._call('DELETE', f"/schedules/{quote(id, safe='')}", {}, {"If-Match": if_match})

    def get_schedule(self, id: str) -> ScheduleDetail:
        """One schedule, and its next instants."""
        return self._call('GET', f"/schedules/{quote(id, safe='')}", {}, {})

    def patch_schedule(self, id: str, body: SchedulePatch, *, if_match: str | None = None) -> Schedule:
        """Change the given fields by RFC 7396: null sets a field to its default."""
        return self._call('PATCH', f"/schedules/{quote(id, safe='')}", {}, {"If-Match": if_match}, body, 'application/json')

    def replace_schedule(self, id: str, body: ScheduleReplacement, *, if_match: str | None = None) -> Schedule:
        """Replace a schedule. Without an anchor, the current one stays."""
        return self._call('PUT', f"/schedules/{quote(id, safe='')}", {}, {"If-Match": if_match}, body, 'application/json')

    def pause_schedule(self, id: str, *, if_match: str | None = None) -> Schedule:
        """Stop the events of a schedule until it is resumed."""
        return self._call('POST', f"/schedules/{quote(id, safe='')}/pause", {}, {"If-Match": if_match})

    def resume_schedule(self, id: str, *, if_match: str | None = None) -> Schedule:
        """End a pause. The next instant is the first one after now."""
        return self._call('POST', f"/schedules/{quote(id, safe='')}/resume", {}, {"If-Match": if_match})
