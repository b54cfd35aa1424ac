package runner_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/crashtest"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/transcript"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/llm/openai/endpoint"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools/transfer"
	"github.com/agentarbor/arbor/view"
)

var update = flag.Bool("update", false, "rewrite the expected events and wire of the transcripts")

// checked refuses requests that an endpoint would refuse.
type checked struct{ llm.Model }

func (m checked) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	if err := view.Check(req); err != nil {
		return func(yield func(llm.Chunk, error) bool) {
			yield(llm.Chunk{}, &llm.Error{Code: llm.CodeBadRequest, Message: "wire check: " + err.Error()})
		}
	}
	return m.Model.Generate(ctx, req)
}

type mode struct {
	name         string
	http, stream bool
	responses    bool // the other protocol of OpenAI's
	behind       bool // a router
	searching    bool // the root has a FindAgent of its own
	shared       bool // the agents share their requests
	ahead        *foresight
}

var modes = []mode{{name: "in process"}, {name: "in process, streamed", stream: true}, {name: "http", http: true}, {name: "http, streamed", http: true, stream: true},
	{name: "responses", http: true, responses: true}, {name: "responses, streamed", http: true, responses: true, stream: true}}

// play runs a transcript and returns what came out.
func play(t *testing.T, tr *transcript.Transcript, m mode, all ...llmagent.Option) (events, wire string) {
	var mu sync.Mutex
	var requests bytes.Buffer
	script := must.Get(scripted.Parse([]byte(tr.Section("script"))))
	recorded := func(name string) llm.Model {
		return recorder{script.Model(name), func(req *llm.Request) {
			mu.Lock()
			defer mu.Unlock()
			if m.shared {
				return
			}
			writeRequest(&requests, name, req)
			if want, system := targetLines(req); system != want {
				fmt.Fprintf(&requests, "  the system text lists %q\n", system)
			}
		}}
	}
	model := func(name string) llm.Model { return checked{recorded(name)} }
	if m.http {
		server := must.Get(endpoint.Start(func(name string) (llm.Model, bool) { return recorded(name), true }))
		defer server.Close()
		model = func(name string) llm.Model {
			opts := []openai.Option{openai.WithBaseURL(server.URL()), openai.WithRetries(0)}
			if m.responses {
				opts = append(opts, openai.WithResponses(), openai.WithEndpoint("echo"))
			}
			return checked{must.Get(openai.New(name, opts...))}
		}
	}
	opts := []runner.Option{runner.WithIDs(transcript.Counter())}
	if m.stream {
		opts = append(opts, runner.WithStreaming())
	}
	if m.shared {
		own := model
		model = func(name string) llm.Model { return oneName{own(name)} }
		opts = append(opts, runner.WithSharedRequests())
	}
	if m.ahead != nil {
		own := model
		model = func(name string) llm.Model { return aheadModel{own(name), m.ahead} }
		opts = append(opts, runner.AnticipatesFirst(), runner.WithAnticipation(m.ahead.predict, 1))
	}
	root := transcript.Tree(t, tr.Section("agents"), model, all...)
	if m.behind {
		root = must.Get(crashtest.BehindRouter(root))
	}
	if m.searching {
		root = &searching{root, func(string) {}}
	}
	store := sessiontest.Memory(t)
	r, err := runner.New(root, store, opts...)
	var wrong *agent.TreeError
	if m.shared && errors.As(err, &wrong) {
		t.Skip(err)
	}
	require.NoError(t, err)

	key := session.ID("s1")
	var out strings.Builder
	depth := depths{}
	var calls transcript.Calls
	for message := range strings.Lines(tr.Section("user")) {
		var stored []*event.Event
		var failed string
		deltas := make(map[string]string)
		turn := r.Run(context.Background(), key, llm.UserText(strings.TrimSuffix(message, "\n")))
		m.ahead.begin(message)
		if decision, ok := strings.CutPrefix(message, "/"); ok {
			r = newRunner(t, root, store, opts...)
			turn = r.Resume(context.Background(), key, transcript.Decisions(decision, calls)...)
		}
		for e, err := range turn {
			if err != nil {
				failed = fmt.Sprintf("error: %s\n", errorNames(err))
				continue
			}
			if e.Partial {
				deltas[e.ID] += partialText(e)
				continue
			}
			// Deltas of inner scopes that come later than the whole are dropped, and a workflow has no model.
			if d := partialText(e); m.stream && d != "" && e.Scope == "" && strings.Contains(tr.Section("script"), e.Agent+": ") {
				require.Equal(t, d, deltas[e.ID], "deltas and the complete event differ")
			}
			stored = append(stored, e)
		}
		for _, e := range m.ahead.without(stored) {
			calls.Add(e)
			writeEvent(&out, e, calls, depth.of(e))
		}
		out.WriteString(failed)
	}
	require.NoError(t, script.Done())
	return out.String(), requests.String()
}

// depths says how many scopes are around an event.
type depths map[string]int

func (d depths) of(e *event.Event) int {
	if _, ok := e.Data.(*event.HarnessStart); ok && e.Scope != "" && d[e.Scope] == 0 {
		d[e.Scope] = d[cmp.Or(event.ParentRun(e.Scope), e.ParentID)] + 1
	}
	d[e.RunID] = d[e.Scope]
	if e.Type() == event.TypeToolCall {
		d[e.ID] = d[e.Scope]
	}
	return d[e.Scope]
}

func partialText(e *event.Event) string {
	switch d := e.Data.(type) {
	case *event.Text:
		return d.Content
	case *event.Reasoning:
		return d.Content
	}
	return ""
}

type recorder struct {
	llm.Model
	record func(*llm.Request)
}

func (r recorder) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	r.record(req)
	return r.Model.Generate(ctx, req)
}

func errorNames(err error) string {
	var names []string
	for name, target := range map[string]error{"ErrTransferRejected": agent.ErrTransferRejected, "ErrTransferLimit": agent.ErrTransferLimit,
		"ErrLimit": agent.ErrLimit, "ErrOutputTruncated": agent.ErrOutputTruncated, "ErrEmptyAnswer": agent.ErrEmptyAnswer,
		"ErrRepeatedCall": agent.ErrRepeatedCall} {
		if errors.Is(err, target) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var re *agent.RunError
	if errors.As(err, &re) {
		names = append(names, "agent="+re.Agent, "code="+re.Code)
	}
	return strings.Join(names, " ")
}

// writeEvent writes a stored event as one line. Ids differ with streaming, so runs have their agents' names, and
// calls are counted. What happens in an
// inner scope has a mark in front for each scope around it.
func writeEvent(w *strings.Builder, e *event.Event, calls transcript.Calls, depth int) {
	fmt.Fprintf(w, "%d %s%s %s", e.Seq, strings.Repeat("> ", depth), e.Agent, e.Type())
	switch d := e.Data.(type) {
	case *event.User:
		fmt.Fprintf(w, " %q", d.Content.PlainText())
	case *event.Text:
		fmt.Fprintf(w, " %q", d.Content)
	case *event.Reasoning:
		fmt.Fprintf(w, " %q", d.Content)
	case *event.ToolCall:
		fmt.Fprintf(w, " #%s %s %s", calls.Name(e.ID), d.Name, d.Input)
	case *event.ToolResult:
		verb := ""
		if d.IsError {
			verb = " error"
		}
		fmt.Fprintf(w, " #%s %s%s %s", calls.Name(e.ID), d.Name, verb, d.Output)
	case *event.Transfer:
		fmt.Fprintf(w, " %s → %s: %s", d.From, d.To, d.Outcome)
		if d.Reason != "" {
			fmt.Fprintf(w, " (%s)", d.Reason)
		}
	case *event.HarnessEnd:
		fmt.Fprintf(w, " %s", d.FinishReason)
		if d.Target != "" {
			fmt.Fprintf(w, " → %s", d.Target)
		}
	case *event.Relay:
		fmt.Fprintf(w, " #%s %s %s %s", calls.Name(d.ToolCallID), d.Kind, d.Tool, cmp.Or(d.Message, string(d.Params)))
		if len(d.Within) > 0 {
			fmt.Fprintf(w, " within %s", strings.Join(d.Within, " > "))
		}
	case *event.RelayResolved:
		fmt.Fprintf(w, " %s", strings.Join(strings.Fields(fmt.Sprintf("approved=%v %s %s", d.Approved, d.Reason, d.Content)), " "))
	case *event.HarnessStart, *event.Usage:
	case *event.Discard:
		fmt.Fprintf(w, " %s", d.Code)
	case *event.Failure:
		fmt.Fprintf(w, " %s", d.Code)
	default:
		fmt.Fprintf(w, " %s", event.EncodeJSON(d))
	}
	w.WriteByte('\n')
}

// targetLines returns what the system text has to say about the agent and the targets that the tools
// of a request list, and what it has after the words that are the agent's own.
func targetLines(req *llm.Request) (want, system string) {
	before, _, arrived := strings.Cut(req.System, " gave you the conversation")
	texts := func(t transfer.Tools) transfer.Instructions {
		if f := transfer.DefaultForm(t); arrived {
			return f.Arrived
		} else {
			return f.Begun
		}
	}
	words, listed, from := texts(transfer.OneTool).Alone, "", before[strings.LastIndex(before, "\n")+1:]
	_, reason, _ := strings.Cut(req.System, "because it is your work")
	reason, _, _ = strings.Cut(reason, ". Answer the user now.")
	for _, t := range req.Tools {
		_, list, ok := strings.Cut(t.Description, ":\n- ")
		switch target, _ := strings.CutPrefix(t.Name, "transfer_to_"); {
		case !ok:
		case t.Name == agent.TransferTool:
			words, listed = texts(transfer.OneTool).Targets, "\n- "+list
		default:
			words = texts(transfer.ToolPerTarget).Targets
			listed += "\n- " + strings.Replace(list, target, target+" ("+t.Name+")", 1)
		}
	}
	_, system, _ = strings.Cut(req.System, ".")
	self, _, _ := strings.Cut(strings.TrimPrefix(system, "\n\nYou are "), "\n")
	name, _, _ := strings.Cut(self, ": ")
	if path := strings.Split(req.Agent, "/"); system == "" || req.Agent != "" && path[len(path)-1] != name {
		return "", system
	}
	return "\n\n" + strings.NewReplacer(transfer.SelfPlaceholder, self, transfer.TargetsPlaceholder, strings.TrimPrefix(listed, "\n"), transfer.ToolPlaceholder, agent.TransferTool, "{from}", from, "{reason}", reason).Replace(words), system
}

// writeRequest writes a request as a model reads it. Endpoints have ids of their own for calls, so calls are counted.
func writeRequest(w *bytes.Buffer, name string, req *llm.Request) {
	calls := make(map[string]int)
	number := func(id string) int {
		if calls[id] == 0 {
			calls[id] = len(calls) + 1
		}
		return calls[id]
	}
	fmt.Fprintf(w, "to %s\n", name)
	for _, t := range req.Tools {
		fmt.Fprintf(w, "  tool %s", t.Name)
		if t.Name == agent.TransferTool {
			fmt.Fprintf(w, " %q", t.Description[strings.Index(t.Description, "The agents:"):])
		} else if strings.HasPrefix(t.Name, "transfer_to_") {
			fmt.Fprintf(w, " %q", t.Description[strings.Index(t.Description, "\n- ")+1:])
		}
		w.WriteByte('\n')
	}
	for _, m := range req.Messages {
		fmt.Fprintf(w, "  %s", m.Role)
		if m.Text != "" {
			fmt.Fprintf(w, " %q", m.Text)
		}
		for _, p := range m.Parts {
			switch p := p.(type) {
			case llm.ToolCall:
				fmt.Fprintf(w, " call #%d %s %s", number(p.ID), p.Name, p.Arguments)
			case llm.ToolResult:
				fmt.Fprintf(w, " #%d %s", number(p.CallID), p.Output)
			case llm.Reasoning: // goes on the wire only where an endpoint wants it
			default:
				fmt.Fprintf(w, " %T", p)
			}
		}
		w.WriteByte('\n')
	}
}

var (
	calledByArgument = regexp.MustCompile(`call transfer_to_agent(#\w+)? \{"agent_name": "([\w-]+)"(?:, )?([^}]*)\}`)
	expectsTransfers = regexp.MustCompile(`expect tools \S*transfer_to_\S*`)
	expectsOwn       = regexp.MustCompile(`expect (tools \S+|(user|system) "[^"]*")`) // what all agents are shown, or only the last message says
	modelNamed       = regexp.MustCompile(`the model \w+ named`)
	toolsListed      = regexp.MustCompile(`The tools: [^"]*`)
)

// TestTranscriptsInTheOtherForm plays the transcripts with agents that are offered a tool
// for each target, whether their models call these or, all the same, transfer_to_agent;
// and has models call transfer_to_NAME that are offered one tool. What is stored is the
// same, except lists of tools in what a model reads.
func TestTranscriptsInTheOtherForm(t *testing.T) {
	for _, tr := range transcript.All(t, "testdata/*/*.txtar") {
		plain := &transcript.Transcript{File: tr.File, Archive: &txtar.Archive{Files: slices.Clone(tr.Archive.Files)}}
		plain.Set("script", expectsTransfers.ReplaceAllString(tr.Section("script"), ""))
		each := &transcript.Transcript{File: tr.File, Archive: &txtar.Archive{Files: slices.Clone(tr.Archive.Files)}}
		each.Set("script", calledByArgument.ReplaceAllString(plain.Section("script"), "call transfer_to_$2$1 {$3}"))
		for _, m := range modes[1:3] {
			t.Run(tr.Name()+", "+m.name, func(t *testing.T) {
				want := toolsListed.ReplaceAllString(tr.Section("events"), "")
				for _, played := range []struct {
					*transcript.Transcript
					offered transfer.Tools
				}{{each, transfer.ToolPerTarget}, {plain, transfer.ToolPerTarget}, {each, transfer.OneTool}} {
					events, _ := play(t, played.Transcript, m, llmagent.WithTransferTools(played.offered))
					require.Equal(t, want, toolsListed.ReplaceAllString(events, ""), played.Section("script"))
				}
			})
		}
	}
}

// oneName is the model of one agent under the name of all.
type oneName struct{ llm.Model }

func (oneName) Name() string { return "shared" }

// TestTranscriptsWithSharedRequests plays the transcripts with agents that share their requests, as far as they can. What
// is stored is the same, except lists of tools in what a model reads.
func TestTranscriptsWithSharedRequests(t *testing.T) {
	played := 0
	for _, tr := range transcript.All(t, "testdata/*/*.txtar") {
		plain := &transcript.Transcript{File: tr.File, Archive: &txtar.Archive{Files: slices.Clone(tr.Archive.Files)}}
		plain.Set("script", expectsOwn.ReplaceAllString(tr.Section("script"), ""))
		for _, m := range modes[:4] {
			m.shared = true
			t.Run(tr.Name()+", "+m.name, func(t *testing.T) {
				events, _ := play(t, plain, m)
				require.Equal(t, modelNamed.ReplaceAllString(tr.Section("events"), ""), modelNamed.ReplaceAllString(events, ""))
				played++
			})
		}
	}
	require.Greater(t, played, 100)
}

func TestTranscripts(t *testing.T) {
	for _, tr := range transcript.All(t, "testdata/*/*.txtar") {
		t.Run(tr.Name(), func(t *testing.T) {
			if *update {
				events, wire := play(t, tr, modes[0])
				tr.Set("events", events)
				tr.Set("wire", wire)
				require.NoError(t, os.WriteFile(tr.File, txtar.Format(tr.Archive), 0o644))
			}
			for _, m := range modes {
				t.Run(m.name, func(t *testing.T) {
					events, wire := play(t, tr, m)
					require.Equal(t, tr.Section("events"), events)
					require.Equal(t, tr.Section("wire"), wire)
				})
			}
		})
	}
}
