"""Writes schedules.py, the typed client, from the OpenAPI document.

Usage: python3 generate.py OPENAPI.json > schedules.py

It needs nothing but Python 3.11, and knows as much of OpenAPI as that document uses.
"""

import json
import keyword
import re
import sys

HEADER = '''"""Schedules of prescient, over HTTP. Generated from the OpenAPI document by generate.py: do not edit."""

import json
from typing import Any, Literal, NotRequired, TypedDict
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen
'''

CLIENT = '''

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
'''


def snake(name):
    return re.sub(r"(?<=[a-z])(?=[A-Z])|-", "_", name).lower()


def type_of(schema):
    if "$ref" in schema:
        return schema["$ref"].rsplit("/", 1)[1]
    if "anyOf" in schema:
        return " | ".join(type_of(one) for one in schema["anyOf"])
    if "enum" in schema:
        return "Literal[" + ", ".join(repr(value) for value in schema["enum"]) + "]"
    kinds = schema.get("type", [])
    names = {
        "string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None", "object": "dict[str, Any]",
        "array": f"list[{type_of(schema['items'])}]" if "items" in schema else "list[Any]",
    }
    return " | ".join(names[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds)) or "Any"


class Generator:
    def __init__(self, document):
        self.document = document
        self.schemas = document["components"]["schemas"]

    def model(self, name, schema):
        lines = [f"class {name}(TypedDict):"]
        if "description" in schema:
            lines += [f'    """{schema["description"]}"""', ""]
        for field, of in schema["properties"].items():
            kind = type_of(of)
            lines.append(f"    {field}: {kind if field in schema.get('required', []) else f'NotRequired[{kind}]'}")
        return "\n".join(lines) + "\n"

    def models(self):
        """Every model, after those that it names."""
        done = []

        def add(name):
            if name in done:
                return
            schema = self.schemas[name]
            for used in re.findall(r'"#/components/schemas/(\w+)"', json.dumps(schema)):
                add(used)
            done.append(name)

        for name in self.schemas:
            add(name)
        return "\n\n".join(self.model(name, self.schemas[name]) for name in done)

    def method(self, method, path, operation):
        parameters = operation.get("parameters", [])
        by = {where: [p for p in parameters if p["in"] == where] for where in ("path", "query", "header")}
        takes = [f"{self.name(p)}: {type_of(p['schema'])}" for p in by["path"]]
        call = [repr(method.upper()), self.path(path, by["path"]), self.given(by["query"]), self.given(by["header"])]
        if "requestBody" in operation:
            media, content = next(iter(operation["requestBody"]["content"].items()))
            takes.append(f"body: {type_of(content['schema'])}")
            call += ["body", repr(media)]
        options = sorted(by["query"] + by["header"], key=lambda p: not p.get("required", False))
        if options:
            takes.append("*")
        for p in options:
            takes.append(f"{self.name(p)}: {type_of(p['schema'])}" + ("" if p.get("required") else " | None = None"))
        answer = next(response for status, response in operation["responses"].items() if status.startswith("2"))
        returns = type_of(answer["content"]["application/json"]["schema"]) if "content" in answer else "None"
        return (
            f"    def {snake(operation['operationId'])}({', '.join(['self', *takes])}) -> {returns}:\n"
            f'        """{operation["summary"]}."""\n'
            f"        return self._call({', '.join(call)})\n"
        )

    def name(self, parameter):
        name = snake(parameter["name"])
        return name + "_" if keyword.iskeyword(name) else name

    def path(self, path, parameters):
        for p in parameters:
            path = path.replace("{%s}" % p["name"], "{quote(%s, safe='')}" % self.name(p))
        return ("f" if parameters else "") + json.dumps(path)

    def given(self, parameters):
        return "{" + ", ".join(f"{json.dumps(p['name'])}: {self.name(p)}" for p in parameters) + "}"

    def methods(self):
        return "\n".join(
            self.method(method, path, operation)
            for path, item in self.document["paths"].items()
            for method, operation in item.items()
        )


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        generator = Generator(json.load(file))
    print(HEADER + "\n" + generator.models() + CLIENT + "\n" + generator.methods(), end="")


if __name__ == "__main__":
    main()
