"""First contact with an OpenAI-compatible endpoint: does it answer, and which model does it serve?

Whatever is wrong at this point is an `EndpointError` with one clear line and a hint, before any turn was
paid for. The key comes from OPENAI_API_KEY and is never shown.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kevin_cli.errors import EndpointError
from kevin_cli.policies.answers import ServedModel, excerpt, is_completion, one_line, read_models

if TYPE_CHECKING:
    import openai

CHECK_TIMEOUT_S = 15.0
PROBE_TIMEOUT_S = 120.0
CONNECT_TIMEOUT_S = 10.0
LOCAL = ("localhost", "127.0.0.1", "::1", "0.0.0.0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """An endpoint that answered, and the model to ask there."""

    endpoint: str
    model: ServedModel
    sleeps: bool = False
    """Whether it has to give its memory back while something is measured."""

    @property
    def root(self) -> str:
        """The server without the path of its OpenAI API: where vLLM has its other calls."""
        return self.endpoint.rstrip("/").removesuffix("/v1")

    @property
    def headers(self) -> dict[str, str]:
        key = os.environ.get("OPENAI_API_KEY")
        return {"Authorization": f"Bearer {key}"} if key else {}

    @property
    def is_local(self) -> bool:
        """Whether it runs on this machine, and so perhaps on the judge's device."""
        return (urlsplit(self.endpoint).hostname or "") in LOCAL


async def check(endpoint: str, model: str = "", *, timeout_s: float = CHECK_TIMEOUT_S) -> Server:
    """Ask for the list of models. Raises `EndpointError` when nothing usable answers."""
    import openai

    endpoint = endpoint.rstrip("/")
    url = f"{place(endpoint)}/models"
    async with client(endpoint, max_retries=0) as connection:
        try:
            async with _reached(endpoint, url, timeout_s):
                raw = await connection.models.with_raw_response.list()
        except openai.APIStatusError as error:
            if not model or error.status_code in (401, 403):
                raise EndpointError(f"{url} refuses: {status_line(error)}", _hint(error.status_code)) from error
            await _probe(connection, endpoint, model)
            return Server(endpoint=endpoint, model=ServedModel(name=model))
    return _choose(endpoint, model, str(raw.http_response.text), url)


def place(endpoint: str) -> str:
    """The endpoint as it may be shown: without user, password and query."""
    parts = urlsplit(endpoint)
    host = parts.netloc.rpartition("@")[2]
    return f"{host}{parts.path}"


def client(endpoint: str, max_retries: int) -> openai.AsyncOpenAI:
    """A client for the endpoint. Raises `EndpointError` when it is not a URL."""
    if urlsplit(endpoint).scheme not in ("http", "https") or not urlsplit(endpoint).hostname:
        raise EndpointError(f"{endpoint!r} is not a URL", "an endpoint looks like http://127.0.0.1:8000/v1")
    import openai

    return openai.AsyncOpenAI(
        base_url=endpoint,
        api_key=os.environ.get("OPENAI_API_KEY") or "none",
        max_retries=max_retries,
        timeout=openai.Timeout(600.0, connect=CONNECT_TIMEOUT_S),
    )


def status_line(error: openai.APIStatusError) -> str:
    """`HTTP 401: Incorrect API key`: what a server that refuses said, on one line."""
    body = error.body
    if isinstance(body, dict):
        text = str(body.get("message") or body.get("detail") or body.get("error") or body)
    else:
        text = error.response.text or error.message
    return f"HTTP {error.status_code}: {excerpt(text)}"


def cause_line(error: openai.APIConnectionError) -> str:
    """The innermost reason: `Connection refused` rather than `Connection error.`"""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    return one_line(str(cause)) or type(cause).__name__


def _choose(endpoint: str, model: str, body: str, url: str) -> Server:
    """The named model, or the only one; a server that lists nothing usable is no server for us."""
    models = read_models(body)
    if models is None:
        message = f"{url} answers, but not with a list of models: {excerpt(body)!r}"
        raise EndpointError(message, "the URL of an OpenAI-compatible server usually ends in /v1")
    names = [served.name for served in models]
    if not model and not names:
        raise EndpointError(f"{url} lists no model", "load a model into the server, or give its name with --model")
    if not model and len(names) > 1:
        raise EndpointError(f"{url} lists {len(names)} models", f"say which with --model: {', '.join(names[:6])}")
    chosen = (served for served in models if not model or served.name == model)
    return Server(endpoint=endpoint, model=next(chosen, ServedModel(name=model)))


@asynccontextmanager
async def _reached(endpoint: str, url: str, timeout_s: float) -> AsyncIterator[None]:
    """A request that gets no answer at all becomes an `EndpointError`."""
    import openai

    try:
        async with asyncio.timeout(timeout_s):
            yield
    except (TimeoutError, openai.APITimeoutError) as error:
        message = f"{url} did not answer within {timeout_s:g} s"
        raise EndpointError(message, "is the server still loading its model? try again, or see its log") from error
    except openai.APIConnectionError as error:
        message = f"no server answers at {place(endpoint)}: {cause_line(error)}"
        raise EndpointError(message, "start the server, or mend --endpoint (host, port and the /v1)") from error


async def _probe(connection: openai.AsyncOpenAI, endpoint: str, model: str) -> None:
    """Some servers have no list of models, or a broken one: one token says whether the named model is there.

    A 400 is an answer too: the server reads such requests, and merely wants other fields.
    """
    import openai

    url = f"{place(endpoint)}/chat/completions"
    try:
        async with _reached(endpoint, url, PROBE_TIMEOUT_S):
            raw = await connection.chat.completions.with_raw_response.create(
                model=model, messages=[{"role": "user", "content": "Hi"}], max_tokens=1
            )
    except openai.BadRequestError:
        return
    except openai.APIStatusError as error:
        raise EndpointError(f"{url} refuses: {status_line(error)}", _hint(error.status_code)) from error
    body = str(raw.http_response.text)
    if not is_completion(body):
        message = f"{url} answers, but not with a completion: {excerpt(body)!r}"
        raise EndpointError(message, "the URL of an OpenAI-compatible server usually ends in /v1")


def _hint(status: int) -> str:
    if status in (401, 403):
        return "set OPENAI_API_KEY to a key that this server accepts"
    if status in (404, 405):
        return "the URL of an OpenAI-compatible server usually ends in /v1"
    if status == 429:
        return "the server limits requests; wait, or use another one"
    return "see the server's log"
