"""The part of openenv-core 0.3.0's server that docs/openenv.md uses, as read in its source:
the package itself needs gradio, fastmcp and openai."""

import asyncio
import json
from typing import Any

from fastapi import FastAPI, WebSocket, WebSocketDisconnect
from pydantic import BaseModel, ConfigDict, Field, ValidationError


class Action(BaseModel):
    model_config = ConfigDict(extra="forbid")
    metadata: dict[str, Any] = Field(default_factory=dict)


class Observation(BaseModel):
    model_config = ConfigDict(extra="forbid")
    done: bool = False
    reward: bool | int | float | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)


class State(BaseModel):
    step_count: int = 0


class Environment: ...


def create_app(
    env: type[Any], action_cls: type[Action], observation_cls: type[Observation], max_concurrent_envs: int = 1
) -> FastAPI:
    app, running = FastAPI(), list[object]()

    @app.get("/schema")
    def schema() -> dict[str, Any]:
        classes = {"action": action_cls, "observation": observation_cls, "state": State}
        return {name: kind.model_json_schema() for name, kind in classes.items()}

    @app.websocket("/ws")
    async def session(socket: WebSocket) -> None:
        await socket.accept()
        if len(running) >= max_concurrent_envs:
            await _refuse(socket, "CAPACITY_REACHED", "Server at capacity")
            await socket.close()
            return
        running.append(socket)
        try:
            game = env()
            while (message := json.loads(await socket.receive_text()))["type"] != "close":
                await _answer(socket, game, action_cls, message)
        except WebSocketDisconnect:
            pass
        finally:
            running.remove(socket)

    return app


async def _answer(socket: WebSocket, game: Any, action_cls: type[Action], message: dict[str, Any]) -> None:
    try:
        if message["type"] == "reset":
            seen = await asyncio.to_thread(game.reset, **message["data"])
        else:
            seen = await asyncio.to_thread(game.step, action_cls.model_validate(message["data"]))
        fields = seen.model_dump(exclude={"reward", "done", "metadata"})
        data = {"observation": fields, "reward": seen.reward, "done": seen.done}
        await socket.send_text(json.dumps({"type": "observation", "data": data}))
    except ValidationError as error:
        await _refuse(socket, "VALIDATION_ERROR", "Invalid message", errors=error.errors())
    except Exception as error:  # noqa: BLE001 - as the package does
        await _refuse(socket, "EXECUTION_ERROR", str(error))


async def _refuse(socket: WebSocket, code: str, text: str, **more: Any) -> None:
    message = {"type": "error", "data": {"message": text, "code": code, **more}}
    await socket.send_text(json.dumps(message, default=str, ensure_ascii=False))
