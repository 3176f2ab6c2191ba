"""The fields of messages, parts, calls and items that OpenAI, Anthropic and services compatible with them take.

The names are those of the SDKs' request types (openai 3.57, anthropic 1.x; `tests/formats/test_fields.py` compares) and
of the documentation of compatible services. Other fields are refused by strict services, for all of the session.
"""

from __future__ import annotations

import re
from typing import Any, Final

from autocontext.formats.fitting import Fields, Kinds, fields

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_DETAIL = frozenset({"auto", "low", "high", "original"})
_REPLY_KEYS = "id type model usage stop_reason stop_sequence stop_details container context_management"
"""What replies say of themselves, beside their message."""

# ----------------------------------------------------------------------------------------- OpenAI chat and compatible
_PART = "cache_control:dict prompt_cache_breakpoint"
"""`cache_control`: OpenRouter, DashScope, LiteLLM."""
_CACHED: Any = {"prompt_cache_breakpoint": fields("mode!:str ttl:str")}
_TEXT = fields(f"type! text!:str {_PART}", **_CACHED)
_URL = fields("url!:str detail format:str", detail=_DETAIL)
_SOUND = fields("data!:str format!:str")
_FILE = fields("file_data:str file_id:str filename:str format:str")
_CHAT_PARTS: Final = {
    "text": _TEXT,
    "image_url": fields(f"type! image_url! {_PART}", image_url=(_URL, str), **_CACHED),
    "input_audio": fields(f"type! input_audio! {_PART}", input_audio=_SOUND, **_CACHED),
    "file": fields(f"type! file! {_PART}", file=_FILE, **_CACHED),
    # Of vLLM, DashScope, Mistral and others.
    "video_url": fields(f"type! video_url! {_PART}", video_url=(fields("url!:str fps"), str), **_CACHED),
    "audio_url": fields(f"type! audio_url! {_PART}", audio_url=(fields("url!:str"), str), **_CACHED),
    "video": fields(f"type! video! fps {_PART}", **_CACHED),
    "document_url": fields(f"type! document_url! document_name {_PART}", **_CACHED),
}
_REFUSAL: Final = fields("type! refusal!:str")
_SYSTEM: Final = fields("role! content! name cache_control", content=(str, [Kinds({"text": _TEXT})]), name=_NAME)
_MORE_OF_CALLS = "extra_content provider_specific_fields thought_signature"
"""Gemini's signatures of thoughts, as its own and LiteLLM's endpoints give and want them."""
_SILENT_IN_CALLS = "index parsed parsed_arguments"
_FUNCTION: Final = fields(f"name!:str arguments!:str {_MORE_OF_CALLS}", silent=_SILENT_IN_CALLS)
CALL: Final = Kinds(
    {
        "function": fields(f"id!:str function! type {_MORE_OF_CALLS}", silent=_SILENT_IN_CALLS, function=_FUNCTION),
        "custom": fields("type! id!:str custom!", silent=_SILENT_IN_CALLS, custom=fields("name!:str input!:str")),
    },
    usual="function",
)
_ASSISTANT: Final = fields(
    "role! content name refusal audio tool_calls function_call reasoning_content:str reasoning:str "
    "reasoning_details:list thinking_blocks:list provider_specific_fields:dict extra_content:dict images:list "
    "prefix:bool partial:bool cache_control:dict",
    silent=f"{_REPLY_KEYS} annotations parsed",
    content=(None, str, [Kinds({"text": _TEXT, "refusal": _REFUSAL, "thinking": fields("type! thinking! closed")})]),
    name=_NAME,
    refusal=(None, str),
    audio=fields("id!:str", silent="data expires_at transcript"),
    tool_calls=[CALL],
    function_call=_FUNCTION,
)
_SHOWN: Any = {"content": (str, [Kinds(_CHAT_PARTS)]), "name": _NAME}
CHAT: Final[dict[str, Fields]] = {
    "system": _SYSTEM,
    "developer": _SYSTEM,
    "user": fields("role! content! name cache_control", **_SHOWN),
    "assistant": _ASSISTANT,
    # Some services take images in results; `to_openai` of a memory shows them after the results.
    "tool": fields("role! tool_call_id!:str content! name cache_control", **_SHOWN),
    "function": fields("role! name!:str content!", content=(None, str, [Kinds({"text": _TEXT})])),
}

# ----------------------------------------------------------------------------------------------------- Responses API
_OUTPUT_PARTS: Final = {
    "output_text": fields("type! text!:str annotations:list logprobs:list", silent="parsed"),
    "refusal": _REFUSAL,
}
_INPUT_PARTS: Final = {
    "input_text": fields("type! text!:str prompt_cache_breakpoint", **_CACHED),
    "input_image": fields("type! image_url:str file_id:str detail prompt_cache_breakpoint", detail=_DETAIL, **_CACHED),
    "input_file": fields(
        "type! detail:str file_data:str file_id:str file_url:str filename:str prompt_cache_breakpoint", **_CACHED
    ),
}
_MESSAGE_ID = re.compile("msg.*", re.DOTALL)
_STATUS = frozenset({"in_progress", "completed", "incomplete"})
_ITEM: Any = {"status": _STATUS, "type": frozenset({"message"}), "id": _MESSAGE_ID}
_MESSAGE = "role! content! type id status phase:str"
RESPONSES_OUTPUT: Final = fields(_MESSAGE, content=(str, [Kinds(_OUTPUT_PARTS)]), **_ITEM)
RESPONSES_INPUT: Final = fields(_MESSAGE, content=(str, [Kinds(_INPUT_PARTS)]), **_ITEM)
_CALL_ID: Any = {"id": re.compile("fc.*", re.DOTALL), "status": _STATUS}
_OUTPUT: Any = {"output": (str, [Kinds(_INPUT_PARTS)])}
_TEXTS: Any = dict.fromkeys(("id", "call_id", "status", "server_label", "container_id", "approval_request_id"), str)
"""Of the service's own items, the fields that are texts; what else they hold is its own affair."""
ITEMS: Final = Kinds(
    {
        "function_call": fields(
            "type! call_id!:str name!:str arguments!:str async id caller namespace status",
            silent="parsed_arguments",
            **_CALL_ID,
        ),
        "function_call_output": fields(
            "type! output! call_id:str id caller name namespace status", **_OUTPUT, **_CALL_ID
        ),
        "custom_tool_call_output": fields("type! call_id!:str output! id caller", **_OUTPUT),
        "item_reference": fields("id!:str type"),
        # The service's own: what it wrote, it takes back.
        **{
            kind: fields(f"type! {words}", **_TEXTS)
            for kind, words in {
                "custom_tool_call": "call_id! input! name! async id caller namespace",
                "file_search_call": "id! queries! status! results",
                "computer_call": "id! call_id! pending_safety_checks! status! action actions",
                "computer_call_output": "call_id! output! id acknowledged_safety_checks status",
                "web_search_call": "id! action! status!",
                "tool_search_call": "arguments! id call_id execution status",
                "tool_search_output": "tools! id call_id execution status",
                "additional_tools": "role! tools! id",
                "configuration_update": "id reasoning text",
                "reasoning": "id! summary! content encrypted_content status",
                "compaction": "encrypted_content! id",
                "compaction_summary": "encrypted_content! id",
                "compaction_trigger": "id",
                "image_generation_call": "id! result! status! action background error output_format quality "
                "revised_prompt size svg_usage",
                "code_interpreter_call": "id! code! container_id! outputs! status!",
                "local_shell_call": "id! action! call_id! status!",
                "local_shell_call_output": "id! output! status call_id",
                "shell_call": "action! call_id! id caller environment status",
                "shell_call_output": "call_id! output! id caller max_output_length status",
                "apply_patch_call": "call_id! operation! status! id caller",
                "apply_patch_call_output": "call_id! status! id caller output",
                "mcp_list_tools": "id! server_label! tools! error",
                "mcp_approval_request": "id! arguments! name! server_label!",
                "mcp_approval_response": "approval_request_id! approve! id reason",
                "mcp_call": "id! arguments! name! server_label! approval_request_id error output status",
                "program": "id! call_id! code! fingerprint!",
                "program_output": "id! call_id! result! status!",
            }.items()
        },
    },
    usual="item_reference",
)

# --------------------------------------------------------------------------------------------------------- Anthropic
_SOURCE: Final = Kinds(
    {
        "url": fields("type! url!:str"),
        "base64": fields("type! media_type!:str data!:str"),
        "text": fields("type! media_type!:str data!:str"),
        "content": fields("type! content!"),
        "file": fields("type! file_id!:str"),
    }
)
_SILENT = "parsed parsed_output"
_IMAGE: Final = fields(
    "type! source! cache_control:dict transformations:dict",
    source=_SOURCE,
    hint='; for OpenAI write {"type": "image_url", "image_url": {"url": "..."}}',
)
_NAMED = "id!:str name!:str input!:dict"
_ANSWERED = "tool_use_id! content! cache_control caller"
_SHOWN_BLOCKS: Final = {
    "text": fields("type! text!:str cache_control:dict citations:list", silent=_SILENT),
    "image": _IMAGE,
    "document": fields("type! source! cache_control:dict citations context:str title:str", source=_SOURCE),
    "search_result": fields("type! content! source!:str title!:str cache_control citations"),
}
RESULT_BLOCKS: Final = Kinds(
    {
        **_SHOWN_BLOCKS,
        "tool_reference": fields("type! tool_name!:str cache_control"),
        "browser_state": fields("type! tabs! cache_control state_changes"),
    }
)
BLOCKS: Final = Kinds(
    {
        **_SHOWN_BLOCKS,
        "thinking": fields("type! thinking!:str signature!:str", silent=_SILENT),
        "redacted_thinking": fields("type! data!:str"),
        "tool_use": fields(f"type! {_NAMED} cache_control caller toolset_name", silent=_SILENT),
        "tool_result": fields(
            "type! tool_use_id!:str content is_error:bool cache_control:dict toolset_name",
            content=(str, [RESULT_BLOCKS]),
        ),
        "compaction": fields("type! content encrypted_content signature tool_changes cache_control"),
        "server_tool_use": fields(f"type! {_NAMED} cache_control caller"),
        "mcp_tool_use": fields(f"type! {_NAMED} server_name! cache_control"),
        "mcp_tool_result": fields("type! tool_use_id! content is_error cache_control"),
        "container_upload": fields("type! file_id!:str cache_control"),
        "tool_addition": fields("type! tool! cache_control"),
        "tool_removal": fields("type! tool! cache_control"),
        "mcp_tool_listing": fields("type! mcp_server_name! tools!"),
        "fallback": fields("type! from! to! trigger"),
        **{
            f"{tool}_tool_result": fields(f"type! {_ANSWERED}")
            for tool in (
                "web_search", "web_fetch", "advisor", "code_execution", "bash_code_execution",
                "text_editor_code_execution", "tool_search",
            )
        },
    }
)  # fmt: skip
ANTHROPIC: Final = fields("role! content!", silent=_REPLY_KEYS, content=(str, [BLOCKS]))
