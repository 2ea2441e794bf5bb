"""A server on this machine that has artifacts, for the real client of Weights & Biases."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

ENTITY, PROJECT = "us", "tests"
_MANIFEST = "wandb_manifest.json"
_UPLOADING = (
    "CreateArtifact",
    "CreateArtifactManifest",
    "CreateArtifactFiles",
    "UpdateArtifactManifest",
    "CommitArtifact",
)


def _digest(data: bytes) -> str:
    return base64.b64encode(hashlib.md5(data).digest()).decode()


class ArtifactServer(ThreadingHTTPServer):
    """Answers the queries with which a run begins and an artifact is uploaded, looked up and
    downloaded."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        # By name, its versions: files by path.
        self.artifacts: dict[str, list[dict[str, bytes]]] = {}
        self.asked: list[str] = []
        # Whether it refuses new artifacts.
        self.full = False
        # Not complete yet, by version and path.
        self._uploads: dict[str, dict[str, bytes]] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def add(self, name: str, folder: Path) -> None:
        """Takes the files of a folder as the newest version of an artifact."""
        files = (path for path in sorted(folder.rglob("*")) if path.is_file())
        version = {str(path.relative_to(folder)): path.read_bytes() for path in files}
        self.artifacts.setdefault(name, []).append(version)

    def version(self, name: str) -> int | None:
        """The version that `collection:alias` is; None when there is none."""
        collection, _, alias = name.partition(":")
        versions = len(self.artifacts.get(collection, []))
        index = versions - 1 if alias == "latest" else int(alias.removeprefix("v"))
        return index if 0 <= index < versions else None

    def artifact(self, name: str) -> dict[str, Any] | None:
        index = self.version(name)
        return None if index is None else _artifact(name, index, self.files(name))

    def files(self, name: str) -> dict[str, bytes]:
        index = self.version(name)
        return {} if index is None else self.artifacts[name.partition(":")[0]][index]

    def answer(self, operation: str, variables: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(operation)
        if operation == "UpsertBucket":
            project = {"id": "project", "name": PROJECT, "entity": {"id": "us", "name": ENTITY}}
            bucket = {"id": "run", "name": variables["name"], "displayName": "run"}
            return {"upsertBucket": {"bucket": {**bucket, "project": project}, "inserted": True}}
        if operation == "CreateRunFiles":
            files = [
                {"name": name, "uploadUrl": f"{self.url}/upload/run/{name}"}
                for name in variables["files"]
            ]
            return {"createRunFiles": {"runID": "run", "uploadHeaders": [], "files": files}}
        if operation in _UPLOADING:
            given = variables.get("input", variables)
            return {operation[0].lower() + operation[1:]: self._take(operation, given)}
        if operation == "ArtifactType":
            return {"project": {"artifact": None}}
        if operation in ("Viewer", "GetDefaultEntity"):
            user = {"id": "user", "entity": ENTITY, "username": ENTITY, "email": "", "flags": "{}"}
            return {"viewer": {**user, "teams": {"edges": []}}}
        if operation == "ArtifactMembershipByName":
            name = variables["name"]
            artifact = self.artifact(name)
            found = None if artifact is None else _membership(name, artifact)
            return {"project": {"artifactCollectionMembership": found}}
        if operation == "ArtifactByID":
            return {"artifact": self.artifact(variables["id"])}
        if operation == "UseArtifact":
            return {"useArtifact": {"artifact": self.artifact(variables["artifactID"])}}
        if operation == "FetchArtifactManifest":
            url = f"{self.url}/manifest/{variables['id']}"
            return {"artifact": {"currentManifest": {"file": {"directUrl": url}}}}
        if operation == "GetArtifactMembershipFileUrls":
            name = f"{variables['collection']}:{variables['alias']}"
            nodes = [
                {"__typename": "File", "name": path, "directUrl": f"{self.url}/file/{name}/{path}"}
                for path in self.files(name)
            ]
            files = {
                "pageInfo": {"__typename": "PageInfo", "endCursor": None, "hasNextPage": False},
                "edges": [{"node": node} for node in nodes],
            }
            collection = {"__typename": "ArtifactSequence", "artifactMembership": {"files": files}}
            return {"project": {"artifactCollection": collection}}
        return {}

    def _take(self, operation: str, given: dict[str, Any]) -> dict[str, Any]:
        """A step of an upload: an artifact, places for its manifest and files, its end."""
        if operation == "CreateArtifact":
            collection = given["artifactCollectionName"]
            version = f"{collection}:v{len(self.artifacts.get(collection, []))}"
            self._uploads[version] = {}
            sequence = {"id": collection, "latestArtifact": None}
            artifact = {"id": version, "state": "PENDING", "artifactSequence": sequence}
            return {"artifact": artifact}
        if operation == "CreateArtifactFiles":
            nodes = [self._place(f["artifactID"], f["name"]) for f in given["artifactFiles"]]
            return {"files": {"edges": [{"node": node} for node in nodes]}}
        if operation == "CommitArtifact":
            version = given["artifactID"]
            files = self._uploads.pop(version)
            del files[_MANIFEST]
            self.artifacts.setdefault(version.partition(":")[0], []).append(files)
            return {"artifact": {"id": version, "digest": "0"}}
        # The manifest, which has the artifact's id, is made and then filled.
        version = given.get("artifactID") or given["artifactManifestID"]
        return {"artifactManifest": {"id": version, "file": self._place(version, _MANIFEST)}}

    def _place(self, version: str, path: str) -> dict[str, Any]:
        """For a file of an artifact that is uploaded."""
        return {
            "id": path,
            "name": path,
            "displayName": path,
            "storagePath": path,
            "uploadUrl": f"{self.url}/upload/{version}/{path}",
            "uploadHeaders": [],
            "uploadMultipartUrls": None,
            "artifact": {"id": version},
        }

    def receive(self, version: str, path: str, data: bytes) -> None:
        if version in self._uploads:  # else a file of the run
            self._uploads[version][path] = data

    def manifest(self, name: str) -> bytes:
        contents = {
            path: {"digest": _digest(data), "size": len(data)}
            for path, data in self.files(name).items()
        }
        manifest = {
            "version": 1,
            "storagePolicy": "wandb-storage-policy-v1",
            "storagePolicyConfig": {"storageLayout": "V2"},
            "contents": contents,
        }
        return json.dumps(manifest).encode()


def _artifact(name: str, version: int, files: dict[str, bytes]) -> dict[str, Any]:
    collection = name.partition(":")[0]
    project = {"id": "project", "internalId": "1", "name": PROJECT, "entity": {"name": ENTITY}}
    sequence = {"__typename": "ArtifactSequence", "name": collection, "project": project}
    return {
        "__typename": "Artifact",
        "id": f"{collection}:v{version}",
        "artifactSequence": sequence,
        "versionIndex": version,
        "artifactType": {"name": "model"},
        "description": None,
        "metadata": None,
        "ttlDurationSeconds": -1,
        "ttlIsInherited": True,
        "tags": [],
        "historyStep": None,
        "state": "COMMITTED",
        "size": sum(map(len, files.values())),
        "digest": "0",
        "commitHash": "0",
        "fileCount": len(files),
        "createdAt": "2024-01-01T00:00:00Z",
        "updatedAt": None,
    }


def _membership(name: str, artifact: dict[str, Any]) -> dict[str, Any]:
    return {
        "__typename": "ArtifactCollectionMembership",
        "id": f"membership {name}",
        "versionIndex": artifact["versionIndex"],
        "createdAt": artifact["createdAt"],
        "aliases": [
            {"__typename": "ArtifactAlias", "id": "alias", "alias": name.partition(":")[2]}
        ],
        "artifactCollection": artifact["artifactSequence"],
        "artifact": artifact,
    }


class _Handler(BaseHTTPRequestHandler):
    server: ArtifactServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path != "/graphql":  # what the client tells about itself
            self._send(b"{}")
            return
        query = json.loads(body)
        operation = re.match(r"\s*(?:query|mutation) (\w+)", query["query"])
        assert operation is not None, query
        if self.server.full and operation[1] == "CreateArtifact":
            errors = [{"message": "there is no room", "path": ["createArtifact"]}]
            self._send(json.dumps({"data": None, "errors": errors}).encode())
            return
        answer = self.server.answer(operation[1], query.get("variables") or {})
        self._send(json.dumps({"data": answer}).encode())

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        _, name, path = self._parts()
        self.server.receive(name, path, data)
        self._send(b"")

    def _parts(self) -> tuple[str, str, str]:
        """What the path asks for, the version of an artifact, the path of a file in it."""
        kind, _, rest = unquote(self.path).removeprefix("/").partition("/")
        name, _, path = rest.partition("/")
        return kind, name, path

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        kind, name, path = self._parts()
        data = (
            self.server.manifest(name) if kind == "manifest" else self.server.files(name).get(path)
        )
        self._send(data or b"", 404 if data is None else 200)

    def _send(self, data: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Tests read `asked`."""


@contextmanager
def artifact_server() -> Iterator[ArtifactServer]:
    with ArtifactServer() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
