package openai

import (
	"encoding/json"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/agentarbor/arbor/llm"
)

// The body of a request in the form of go-openai, except for what it loses: an empty content, a zero, the digits of a
// number, and fields that it does not know. Of two fields with the same name encoding/json takes the less deeply
// embedded one, so a field here replaces go-openai's. The order of the fields is that of the JSON.
type (
	wireRequest struct {
		Model    string        `json:"model"`
		Messages []wireMessage `json:"messages"`
		goopenai.ChatCompletionRequest
		Temperature         json.Number `json:"temperature,omitempty"` // zero is a number, too
		TopP                json.Number `json:"top_p,omitempty"`
		MaxTokens           int         `json:"max_tokens,omitempty"`
		MaxCompletionTokens int         `json:"max_completion_tokens,omitempty"`
		Seed                *int64      `json:"seed,omitempty"`
		PromptCacheKey      string      `json:"prompt_cache_key,omitempty"`
		Slot                *int        `json:"id_slot,omitempty"`
	}
	// wireMessage embeds nothing: go-openai's message has its own MarshalJSON, which an embedding type would inherit.
	wireMessage struct {
		Role             string            `json:"role"`
		Content          any               `json:"content"` // a string, []wirePart, or nil for null
		ReasoningContent *string           `json:"reasoning_content,omitempty"`
		Reasoning        *string           `json:"reasoning,omitempty"`
		ReasoningDetails []json.RawMessage `json:"reasoning_details,omitempty"`
		ThinkingBlocks   []json.RawMessage `json:"thinking_blocks,omitempty"`
		ToolCalls        []wireCall        `json:"tool_calls,omitempty"`
		ToolCallID       string            `json:"tool_call_id,omitempty"`
		Name             string            `json:"name,omitempty"` // of the tool
	}
	wireCall struct {
		ID       string            `json:"id,omitempty"`
		Type     goopenai.ToolType `json:"type"`
		Function wireFunction      `json:"function"`
		opaque
	}
	wireFunction struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments,omitempty"`
		opaque
	}
	wirePart struct {
		goopenai.ChatMessagePart
		File  *wireFile  `json:"file,omitempty"`
		Audio *wireAudio `json:"input_audio,omitempty"`
	}
	wireAllowed struct {
		Mode  llm.ToolChoice `json:"mode"`
		Tools []any          `json:"tools"`
	}
	wireAudio struct {
		Data   string `json:"data"`
		Format string `json:"format"`
	}
	wireFile struct {
		Name string `json:"filename"`
		Data string `json:"file_data"`
	}
)

func textPart(text string) wirePart {
	return wirePart{ChatMessagePart: goopenai.ChatMessagePart{Type: goopenai.ChatMessagePartTypeText, Text: text}}
}
