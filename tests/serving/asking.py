"""Applications that tests ask in their own process, without a server."""

import asyncio

import httpx


def client_of(app, **options):
    """A client whose requests go to an application."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost", **options)


def asked(scenario, app, **options):
    """What `scenario(client, app)` returns, after which the models are closed."""

    async def main():
        async with client_of(app, **options) as client:
            try:
                return await scenario(client, app)
            finally:
                await app.models.close()

    return asyncio.run(main())
