package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/llm/openai/endpoint"
	"github.com/agentarbor/arbor/llm/scripted"
)

// through serves a model over HTTP and returns the client's model of it, without
// retries.
func through(t testing.TB, m llm.Model, opts ...openai.Option) *openai.Model {
	t.Helper()
	s, err := endpoint.Start(endpoint.Models(m))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	client, err := openai.New(m.Name(), append(opts, openai.WithBaseURL(s.URL()), openai.WithRetries(0))...)
	require.NoError(t, err)
	return client
}

// play puts an answer together; the error is the sequence's.
func play(m llm.Model, req *llm.Request) (llm.Message, llm.Chunk, error) {
	var out llm.Message
	var last llm.Chunk
	for c, err := range m.Generate(context.Background(), req) {
		if err != nil {
			return out, last, err
		}
		out.Text += c.Text
		if c.Reasoning != "" {
			out.Parts = append(out.Parts, llm.Reasoning{Text: c.Reasoning})
		}
		if c.Call != nil {
			out.Parts = append(out.Parts, *c.Call)
		}
		if c.Usage != nil {
			last.Usage = c.Usage
		}
		last.Finish = c.Finish
	}
	if last.Finish == "" {
		return out, last, &llm.Error{Code: llm.CodeTruncated}
	}
	return out, last, nil
}

// What a model says in this process and over HTTP is the same, faults included.
func TestSameInProcessAndOverHTTP(t *testing.T) {
	answers := map[string][]scripted.Item{
		"text":    {scripted.Text("a ", "b\n", "ä🦜\"<&>\\")},
		"think":   {scripted.Think("hm"), scripted.Text("x"), scripted.Usage(3, 2, 1)},
		"calls":   {scripted.Text("x"), scripted.CallID("1", "f", `{"a": 1}`), scripted.CallID("2", "f", ""), scripted.CallID("3", "g", "{oops")},
		"odd":     {scripted.Text("x"), scripted.Finish("something_new")},
		"length":  {scripted.CallID("1", "f", "{}"), scripted.Finish(llm.FinishLength)},
		"nothing": {scripted.Usage(1, 0, 0)},
		"cut":     {scripted.Text("x"), scripted.Cut()},
		"cut 0":   {scripted.Cut()},
	}
	for _, status := range []int{400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503} {
		answers[fmt.Sprint(status)] = []scripted.Item{scripted.Status(status, 1200*time.Millisecond)}
	}
	for _, code := range []llm.ErrorCode{
		llm.CodeUnreachable, llm.CodeTimeout, llm.CodeTruncated, llm.CodeUnauthorized, llm.CodeNotFound, llm.CodeBadRequest,
		llm.CodeContextLength, llm.CodeRateLimited, llm.CodeServer, llm.CodeBadResponse,
	} {
		answers[string(code)] = []scripted.Item{scripted.Fail(&llm.Error{Code: code, Message: "boom"})}
		if code != llm.CodeUnreachable { // after the first word it is another fault
			answers["late "+string(code)] = []scripted.Item{scripted.Text("x"), scripted.Fail(&llm.Error{Code: code, Message: "boom"})}
		}
	}
	for name, items := range answers {
		t.Run(name, func(t *testing.T) {
			local := scripted.Always("m", scripted.Reply(items...))
			remote, other := through(t, local), through(t, local, openai.WithResponses(), openai.WithEndpoint("echo"))
			for i := range 4 {
				stream, remote := i%2 == 0, remote
				req := &llm.Request{Messages: []llm.Message{llm.UserText("hi")}, Stream: stream}
				wantMsg, wantLast, wantErr := play(local, req)
				if name == "odd" { // no end that a protocol knows
					wantErr = &llm.Error{Code: llm.CodeServer}
				}
				if i >= 2 {
					remote = other
					if name == "odd" { // which has no name there
						wantErr, wantLast.Finish = nil, llm.FinishStop
					}
				}
				gotMsg, gotLast, err := play(remote, req)
				if wantErr == nil {
					require.NoError(t, err)
					require.Equal(t, wantMsg, gotMsg)
					require.Equal(t, wantLast, gotLast)
					continue
				}
				var want, got *llm.Error
				require.ErrorAs(t, wantErr, &want)
				require.ErrorAs(t, err, &got)
				require.Equal(t, want.Code, got.Code)
				if want.Status != 0 {
					require.Equal(t, want.Status, got.Status)
					require.Equal(t, want.Retryable, got.Retryable)
					require.Contains(t, got.Message, want.Message)
				}
				if got.Retryable && want.Status != 0 {
					require.Equal(t, want.RetryAfter, got.RetryAfter)
				}
				if stream {
					require.Equal(t, wantMsg.Text, gotMsg.Text)
				}
			}
		})
	}
}

func TestScriptDriftIsClearOverHTTP(t *testing.T) {
	script := scripted.New()
	_, _, err := play(through(t, script.Model("billing")), &llm.Request{Messages: []llm.Message{llm.UserText("hi")}})
	var e *llm.Error
	require.ErrorAs(t, err, &e)
	require.False(t, e.Retryable)
	require.Contains(t, e.Message, `the script has no answers for agent "billing"`)
}

// spy keeps the request that reached it.
type spy struct{ got *llm.Request }

func (*spy) Name() string { return "m" }
func (s *spy) Generate(_ context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	s.got = req
	return func(yield func(llm.Chunk, error) bool) { yield(llm.Chunk{Finish: llm.FinishStop}, nil) }
}

// Any legal conversation passes the strict check and arrives as it was.
func TestRequestsArriveAsTheyWere(t *testing.T) {
	s := &spy{}
	m, other := through(t, s), through(t, s, openai.WithResponses())
	word := rapid.StringMatching(`[ -~äß🦜\n"\\<>]{1,12}`)
	rapid.Check(t, func(t *rapid.T) {
		req := &llm.Request{System: rapid.SampledFrom([]string{"", "be good", "<b>&\""}).Draw(t, "system"), Stream: rapid.Bool().Draw(t, "stream")}
		ids := 0
		for range rapid.IntRange(0, 4).Draw(t, "turns") {
			req.Messages = append(req.Messages, llm.UserText(word.Draw(t, "user")))
			a := llm.Message{Role: llm.RoleAssistant}
			var results []llm.Message
			for range rapid.IntRange(0, 3).Draw(t, "calls") {
				ids++
				call := llm.ToolCall{ID: fmt.Sprintf("call%05d", ids), Name: "lookup", Arguments: `{"a": "` + fmt.Sprint(ids) + `"}`}
				a.Parts = append(a.Parts, call)
				output := word.Draw(t, "output")
				results = append(results, llm.Message{Role: llm.RoleTool, Content: llm.Content{
					Parts: []llm.Part{llm.ToolResult{CallID: call.ID, Name: "lookup", Output: output}}}})
			}
			if len(results) == 0 || rapid.Bool().Draw(t, "says") {
				a.Text = word.Draw(t, "assistant")
			}
			req.Messages = append(append(req.Messages, a), results...)
		}
		req.Messages = append(req.Messages, llm.UserParts(llm.TextPart{Text: word.Draw(t, "part")},
			llm.Media{Kind: llm.MediaFile, MediaType: "text/plain", Name: "a.txt", Data: []byte(word.Draw(t, "file"))},
			llm.Media{Kind: llm.MediaImage, MediaType: "image/png", Data: []byte{1}}))
		if rapid.Bool().Draw(t, "tools") {
			req.Tools = []llm.ToolSpec{{Name: "lookup", Description: word.Draw(t, "description"), Parameters: json.RawMessage(`{"type":"object"}`)}}
			req.ToolChoice = rapid.SampledFrom([]llm.ToolChoice{"", "auto", "none", "required", "lookup"}).Draw(t, "choice")
			if rapid.Bool().Draw(t, "parallel") {
				yes := rapid.Bool().Draw(t, "parallel value")
				req.ParallelToolCalls = &yes
			}
		}
		for _, f := range []**float64{&req.Temperature, &req.TopP} {
			if rapid.Bool().Draw(t, "setting") {
				v := rapid.Float64Range(0, 1).Draw(t, "value")
				*f = &v
			}
		}
		req.MaxTokens = rapid.IntRange(0, 10).Draw(t, "max")
		req.Stop = rapid.SampledFrom([][]string{nil, {"a"}, {"a", "b"}}).Draw(t, "stop")
		if rapid.Bool().Draw(t, "format") {
			req.ResponseFormat = &llm.ResponseFormat{Name: "r", Schema: json.RawMessage(`{"type":"object"}`)}
		}
		_, _, err := play(m, req)
		require.NoError(t, err)
		require.Equal(t, req, s.got)
		if req.Stop = nil; req.MaxTokens > 0 {
			req.MaxTokens += 16
		}
		_, _, err = play(other, req)
		require.NoError(t, err)
		require.Equal(t, req, s.got)
	})
}

func TestConcurrentAnswers(t *testing.T) {
	m := through(t, scripted.Func("m", func(r *llm.Request) scripted.Answer {
		return scripted.Reply(scripted.Text(r.Messages[0].Text, "!"), scripted.Call("f", r.Messages[0].Text))
	}))
	var group errgroup.Group
	for i := range 50 {
		group.Go(func() error {
			want := fmt.Sprint(i)
			got, _, err := play(m, &llm.Request{Messages: []llm.Message{llm.UserText(want)}, Stream: i%2 == 0})
			if err != nil {
				return err
			}
			if call := got.Parts[0].(llm.ToolCall); got.Text != want+"!" || call.Arguments != want {
				return fmt.Errorf("asked %s, got %+v", want, got)
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
}

func TestKeyOverHTTP(t *testing.T) {
	s, err := endpoint.Start(endpoint.Models(scripted.Always("m", scripted.Reply(scripted.Text("x")))), endpoint.WithAPIKey("right"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	req := &llm.Request{Messages: []llm.Message{llm.UserText("hi")}}
	for key, want := range map[string]string{"right": "", "wrong": "is OPENAI_API_KEY right", "": "no API key was sent: set OPENAI_API_KEY"} {
		m, err := openai.New("m", openai.WithBaseURL(s.URL()), openai.WithAPIKey(key))
		require.NoError(t, err)
		_, _, err = play(m, req)
		if want == "" {
			require.NoError(t, err)
			continue
		}
		var e *llm.Error
		require.True(t, errors.As(err, &e))
		require.Equal(t, llm.CodeUnauthorized, e.Code)
		require.Contains(t, e.Message, want)
	}
}

func TestUnknownModelOverHTTP(t *testing.T) {
	m := through(t, scripted.Always("m", scripted.Reply()))
	_, _, err := play(m.Named("other"), &llm.Request{Messages: []llm.Message{llm.UserText("hi")}})
	require.ErrorContains(t, err, `the model "other" does not exist (model_not_found)`)
	require.ErrorContains(t, err, "Does the endpoint serve this model?")
}

// BenchmarkStream measures a streamed answer of 1000 deltas over loopback, both
// sides of the connection included.
func BenchmarkStream(b *testing.B) {
	deltas := strings.Split(strings.Repeat("word |", 1000), "|")
	m := through(b, scripted.Always("m", scripted.Reply(scripted.Text(deltas[:1000]...))))
	req := &llm.Request{Messages: []llm.Message{llm.UserText("hi")}, Stream: true}
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range m.Generate(context.Background(), req) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
