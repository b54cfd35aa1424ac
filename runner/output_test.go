package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
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
	"github.com/agentarbor/arbor/tools"
)

type invoice struct {
	Number string   `json:"number" jsonschema:"description=As printed"`
	Total  float64  `json:"total"`
	Lines  []string `json:"lines,omitempty"`
}

// typedDesk is a desk whose root answers with an invoice: its models are served over
// HTTP, and their requests recorded.
type typedDesk struct {
	r       *runner.Runner
	started *endpoint.Server
}

func newTypedDesk(t *testing.T, script string, streaming bool, opts ...llmagent.Option) *typedDesk {
	parsed := must.Get(scripted.Parse([]byte(script)))
	t.Cleanup(func() { require.NoError(t, parsed.Done()) })
	server := must.Get(endpoint.Start(parsed.Models(), endpoint.WithRecording()))
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	model := func(name string) llm.Model {
		return must.Get(openai.New(name, openai.WithBaseURL(server.URL()), openai.WithRetries(0)))
	}
	helper := must.Get(llmagent.New("helper", "You help.", model("helper")))
	ask := must.Get(agenttool.New(helper, agenttool.WithName("ask_helper")))
	words := must.Get(llmagent.New("words", "You answer in words.", model("words"), llmagent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: true})))
	root := must.Get(llmagent.New("desk", "You read invoices.", model("desk"), append(opts, llmagent.WithOutput[invoice](),
		llmagent.WithTools(transcript.Tools(t).Get("lookup"), ask), llmagent.WithSubAgents(words))...))
	var options []runner.Option
	if streaming {
		options = append(options, runner.WithStreaming())
	}
	r := newRun(t, root, options...)
	return &typedDesk{r: r, started: server}
}

func TestOutput(t *testing.T) {
	good := "```json\n" + `{"number": "R1", "total": 12.5}` + "\n```"
	trip := llmagent.WithGuards(agent.Guard{Name: "no totals", Out: func(_ context.Context, _ *agent.Invocation, text string) error {
		if strings.Contains(text, "12.5") {
			return errors.New("a total")
		}
		return nil
	}})
	for name, c := range map[string]struct {
		script string
		opts   []llmagent.Option
		want   string // of the output, "" for none
		code   string // of the error event
		lines  []string
	}{
		"fits":                 {script: `desk: "{\"number\": \"R1\"," " \"total\": 12.5}"`, want: "R1"},
		"in a block of code":   {script: "desk: " + fmt.Sprintf("%q", good), want: "R1"},
		"repaired":             {script: "desk: \"It is R1.\"\ndesk: expect user \"did not have the form\" expect system \"JSON of this schema\" \"{\\\"number\\\":\\\"R1\\\",\\\"total\\\":1}\"", want: "R1", lines: []string{"discard bad_output"}},
		"wrong type, repaired": {script: "desk: \"{\\\"number\\\":7,\\\"total\\\":1}\"\ndesk: expect user \"number\" \"{\\\"number\\\":\\\"R1\\\",\\\"total\\\":1}\"", want: "R1", lines: []string{"discard bad_output"}},
		"never":                {script: "desk: \"It is R1.\"\ndesk: \"I said R1.\"", code: event.CodeBadOutput, lines: []string{"discard bad_output", "discard bad_output"}},
		"cut off, repaired":    {script: "desk: \"{\\\"number\\\": \\\"R\" finish=length\ndesk: expect user \"cut off by its length limit\" \"{\\\"number\\\":\\\"R1\\\",\\\"total\\\":1}\"", want: "R1", lines: []string{"discard bad_output"}},
		"withheld":             {script: `desk: finish=content_filter`},
		"tools before":         {script: "desk: \"Let me see.\" call lookup {\"id\": 1}\ndesk: \"{\\\"number\\\":\\\"R1\\\",\\\"total\\\":19}\"", want: "R1"},
		"repaired by a tool":   {script: "desk: \"One moment.\"\ndesk: call lookup {\"id\": 1}\ndesk: \"Hm.\"\ndesk: \"{\\\"number\\\":\\\"R1\\\",\\\"total\\\":19}\"", want: "R1", lines: []string{"discard bad_output", "discard bad_output"}},
		"an agent as a tool":   {script: "desk: call ask_helper {\"input\": \"Which?\"}\nhelper: \"R1\"\ndesk: \"{\\\"number\\\":\\\"R1\\\",\\\"total\\\":19}\"", want: "R1"},
		"handed over":          {script: "desk: call transfer_to_words {}\nwords: \"Hello.\""},
		"and back":             {script: "desk: call transfer_to_words {}\nwords: \"Hello.\" call transfer_to_desk {}\ndesk: \"{\\\"number\\\":\\\"R1\\\",\\\"total\\\":19}\"", want: "R1"},
		"a guard":              {script: `desk: "{\"number\": \"R1\", \"total\": 12.5}"`, opts: []llmagent.Option{trip}, code: event.CodeTripwire},
		"a guard, in a block":  {script: "desk: " + fmt.Sprintf("%q", good), opts: []llmagent.Option{trip}, code: event.CodeTripwire},
		"broken, then fits":    {script: "desk: \"{\\\"num\" fault=cut\ndesk: \"{\\\"number\\\":\\\"R1\\\",\\\"total\\\":1}\"", want: "R1", lines: []string{"discard truncated"}},
	} {
		for _, streaming := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, streaming %v", name, streaming), func(t *testing.T) {
				d := newTypedDesk(t, c.script, streaming, c.opts...)
				var lines []string
				var events []*event.Event
				for e, err := range sessiontest.Turn(t, d.r.Run(t.Context(), session.ID("s"), llm.UserText("Which invoice?"))) {
					if err != nil {
						require.NotEmpty(t, c.code)
						require.Equal(t, c.code, agent.ErrorCode(err))
						var misfit *llmagent.OutputError
						require.Equal(t, c.code == event.CodeBadOutput, errors.As(err, &misfit))
						if misfit != nil {
							require.Equal(t, "desk", misfit.Agent)
							require.ErrorContains(t, misfit, "two answers")
						}
						break
					}
					events = append(events, e)
					switch data := e.Data.(type) {
					case *event.Discard:
						lines = append(lines, "discard "+data.Code)
						require.Equal(t, streaming, len(data.IDs) > 0, "what was shown is taken back")
					case *event.Failure:
						require.Equal(t, c.code, data.Code, data.Message)
					}
				}
				require.Equal(t, c.lines, lines)
				value, res, err := runner.CollectAs[invoice](replay(events))
				if c.want == "" {
					require.ErrorIs(t, err, runner.ErrNoOutput)
					require.Nil(t, res.Output)
					return
				}
				require.NoError(t, err)
				require.Equal(t, c.want, value.Number)
				require.Equal(t, "desk", res.Agent)
				require.Equal(t, res.Text, strings.TrimSpace(res.Text))

				var sent struct {
					Format struct {
						Type   string `json:"type"`
						Schema struct {
							Name   string          `json:"name"`
							Schema json.RawMessage `json:"schema"`
						} `json:"json_schema"`
					} `json:"response_format"`
				}
				require.NoError(t, json.Unmarshal(d.started.Requests()[0], &sent))
				schema := must.Get(tools.SchemaOf[invoice]())
				require.Equal(t, "json_schema", sent.Format.Type)
				require.JSONEq(t, string(schema), string(sent.Format.Schema.Schema))
			})
		}
	}
}

// replay yields events again.
func replay(events []*event.Event) func(func(*event.Event, error) bool) {
	return func(yield func(*event.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// TestOutputAcrossACrash: the one attempt at a repair is in the log, so that it is not
// made twice.
func TestOutputAcrossACrash(t *testing.T) {
	store, key := sessiontest.Memory(t), session.ID("s")
	desk := func(answers ...string) *runner.Runner {
		m := scripted.Func("m", func(*llm.Request) scripted.Answer {
			require.NotEmpty(t, answers)
			next := answers[0]
			answers = answers[1:]
			return scripted.Reply(scripted.Text(next))
		})
		return newRunner(t, must.Get(llmagent.New("desk", "", m, llmagent.WithOutput[invoice]())), store)
	}
	for e, err := range desk("no", "no").Run(t.Context(), key, llm.UserText("Which?")) {
		require.NoError(t, err)
		if _, ok := e.Data.(*event.Discard); ok {
			break
		}
	}
	_, err := runner.Collect(desk("no").Resume(t.Context(), key))
	require.ErrorAs(t, err, new(*llmagent.OutputError))
	value, _, err := runner.CollectAs[invoice](desk(`{"number":"R2","total":1}`).Run(t.Context(), key, llm.UserText("And now?")))
	require.NoError(t, err)
	require.Equal(t, "R2", value.Number)
}

func TestOutputIsChecked(t *testing.T) {
	m := scripted.New().Model("m")
	for want, opts := range map[string][]llmagent.Option{
		"output: ":          {llmagent.WithOutput[[]string]()},
		"a response format": {llmagent.WithOutput[invoice](), llmagent.WithSettings(llm.Settings{ResponseFormat: &llm.ResponseFormat{}})},
		"option 0 is nil":   {llmagent.WithOutput[invoice](nil)},
	} {
		_, err := llmagent.New("a", "", m, opts...)
		require.ErrorContains(t, err, want)
	}
	_, err := llmagent.Func("f", "", func(*llmagent.Step) error { return nil }, llmagent.WithOutput[invoice]())
	require.ErrorContains(t, err, "a form of answers")
	a := must.Get(llmagent.New("a", "", m, llmagent.WithOutput[invoice](llmagent.OutputStrict())))
	require.Contains(t, string(a.OutputSchema()), "As printed")
}
