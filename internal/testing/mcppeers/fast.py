"""A server made with FastMCP, over standard input and output."""

import sys

from fastmcp import Context, FastMCP

mcp = FastMCP("fast")


@mcp.tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    print("a line that is no message", file=sys.__stdout__, flush=True)
    return a + b


@mcp.tool(annotations={"readOnlyHint": True})
def person(name: str) -> dict:
    """Describe somebody."""
    return {"name": name, "letters": len(name)}


@mcp.tool
async def count(n: int, ctx: Context) -> str:
    """Count, and say how far."""
    for i in range(n):
        await ctx.report_progress(i + 1, n, "counting")
    return "counted"


@mcp.tool
def broken() -> str:
    """Fail."""
    raise ValueError("the disk is full")


@mcp.resource("memo://{name}")
def memo(name: str) -> str:
    """A memo."""
    return "memo of " + name


if __name__ == "__main__":
    mcp.run(show_banner=False)
