"""The weather by city: an example of a plugin."""

from collections.abc import AsyncIterator, Callable

from a2ad import Artifact, Executor, InputRequired, TaskRequest, hookimpl


class Weather(Executor):
    async def execute(self, request: TaskRequest) -> AsyncIterator[Artifact]:
        city = request.text.strip()
        if not city:
            raise InputRequired("Which city?")
        yield Artifact(parts=[{"text": "Sunny in "}], append=True, last_chunk=False)
        yield Artifact(parts=[{"text": city}], append=True, last_chunk=True)


@hookimpl
def a2ad_register_executors(register: Callable[..., None]) -> None:
    register("weather", Weather(), summary="Weather by city")


@hookimpl
def a2ad_register_presets(register: Callable[..., None]) -> None:
    register("weather", {"name": "Weather", "skills": [{"id": "weather", "executor": "weather"}]})
