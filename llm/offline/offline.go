// Package offline is an [llm.Model] that needs neither a key nor a network. Use it to try a tree before an endpoint
// exists. It understands no language, and says so. It compares the words of the user with the descriptions in the
// request (BM25). It then transfers, calls a tool with values from the text, or describes tool results in a sentence.
// It knows no tree, keeps nothing between calls, and gives equal requests equal answers.
//
// The package relies on conventions. The description of the tool transfer_to_agent lists its targets in lines "- NAME:
// DESCRIPTION", and that of transfer_to_NAME its own target. User messages with texts of other agents begin with
// "[NAME] "; so does "[NAME] transferred the conversation to you". The routing question ends its system text with such
// lines, the line of the asking agent last, and a line that says how to reply; the last message quotes the user. The
// brief form of the question has a table "agents = {" in code, and the last message calls "route(" with the user's
// text.
//
// The package opens no file or connection.
package offline

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/llm"
)

// Model is the offline model. It is safe for concurrent use; see [New].
type Model struct{}

// margin is how many times a target's score must exceed the agent's own score and the next target's before the model
// transfers.
const margin = 1.2

// New returns an offline model.
func New() *Model { return &Model{} }

// Name returns "offline".
func (*Model) Name() string { return "offline" }

// Generate answers with one tool call, or with text: one word per chunk if the request asks for a stream. Usage counts
// the words of instructions and messages, because there are no tokens; it does not count tools. Of the settings, only
// the tool choice and the response format have an effect. Errors are the context's, or bad_request if no answer
// satisfies one of these two.
func (m *Model) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		text, call, err := answer(req)
		chunks, last := []llm.Chunk{{Text: text}}, llm.Chunk{Finish: llm.FinishStop, Model: m.Name(), Usage: usage(req, text)}
		if call != nil {
			chunks, last.Finish, last.Usage = []llm.Chunk{{Call: call}}, llm.FinishToolCalls, usage(req, call.Arguments)
		} else if req.Stream {
			chunks = nil
			for word := range strings.SplitAfterSeq(text, " ") {
				chunks = append(chunks, llm.Chunk{Text: word})
			}
		}
		for _, c := range append(chunks, last) {
			if err = cmp.Or(ctx.Err(), err); err != nil {
				yield(llm.Chunk{}, err)
				return
			}
			if !yield(c, nil) {
				return
			}
		}
	}
}

func usage(req *llm.Request, answer string) *llm.Usage {
	in := len(strings.Fields(req.System))
	for _, m := range req.Messages {
		in += len(strings.Fields(m.PlainText()))
	}
	return &llm.Usage{InputTokens: in, OutputTokens: len(strings.Fields(answer))}
}

func answer(req *llm.Request) (string, *llm.ToolCall, error) {
	req = own(req)
	if text, ok := whoAnswers(req); ok {
		return text, nil, nil
	}
	t := readTurn(req)
	call, reply, err := decide(req, t)
	described := describe(t.results)
	if err == nil && call == nil && req.ResponseFormat != nil {
		reply, err = respond(req.ResponseFormat.Schema, t.text, described)
	}
	return cmp.Or(reply, described, about(req.System)), call, err
}

// about describes the model, and quotes the instructions that it cannot follow.
func about(system string) string {
	return fmt.Sprintf("I am the offline model: I compare words and understand no language, and I find nothing to do with yours."+
		" The instructions of this agent begin %q. Set OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL for a real model.",
		visible.Cut(sentenceEnd.Get().Split(strings.TrimSpace(system), 2)[0], 160))
}

// speaks matches texts that need no label in a row: dates, phrases and words.
var speaks = lazyregexp.New(`^\d{4}-\d\d-\d\d|\S \S|^\D+$`)

// describe returns a sentence for each tool result. It writes JSON as rows with the members in the order of the JSON
// text, and anything else in quotes. It cuts a result after 600 characters.
func describe(results []llm.ToolResult) string {
	var sentences []string
	for _, r := range results {
		output := `"` + strings.Trim(strings.TrimSpace(r.Output), `"`) + `"`
		if json.Valid([]byte(r.Output)) && strings.ContainsAny(r.Output[:1], "{[") {
			d := json.NewDecoder(strings.NewReader(r.Output))
			d.UseNumber()
			output = phrase(d, "")
		}
		verb := map[bool]string{true: "failed:", false: "returned"}[r.IsError]
		sentences = append(sentences, fmt.Sprintf("%s %s %s.", cmp.Or(r.Name, "The tool"), verb, visible.Cut(output, 600)))
	}
	return strings.Join(sentences, " ")
}

// phrase returns the next value of valid JSON, which has the given key, as text.
func phrase(d *json.Decoder, key string) string {
	token, _ := d.Token()
	label := strings.TrimSuffix(strings.ReplaceAll(key, "_", " "), " id")
	text := strings.Join(strings.Fields(fmt.Sprint(token)), " ")
	switch token := token.(type) {
	case string:
		if speaks.MatchString(text) {
			label = ""
		}
	case json.Delim:
		var parts []string
		for d.More() {
			var member json.Token
			if token == '{' {
				member, _ = d.Token()
			}
			name, _ := member.(string)
			parts = append(parts, phrase(d, name))
		}
		_, _ = d.Token() // the closing bracket
		if text = strings.Join(parts, ", "); token == '[' {
			label, text = fmt.Sprintf("%d %s:", len(parts), cmp.Or(label, "rows")), strings.Join(parts, "; ")
			if len(parts) == 1 {
				label = strings.TrimSuffix(label, "s:") + ":"
			}
		} else if key != "" {
			text = "(" + text + ")"
		}
	}
	if token == nil || text == "" {
		text = "none"
	}
	return strings.TrimSpace(label + " " + text)
}
