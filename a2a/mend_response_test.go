package a2a

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
)

// read is what the protocol library would be given of a response.
func read(t *testing.T, contentType, body string) string {
	t.Helper()
	resp := &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(iotest.OneByteReader(strings.NewReader(body)))}
	require.NoError(t, mendResponse(resp, strings.HasPrefix(contentType, "text/event-stream"), mend))
	data := must.Get(io.ReadAll(resp.Body))
	require.NoError(t, resp.Body.Close())
	return string(data)
}

func TestLenient(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"an unknown part": {`{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"a","parts":[{"text":"hi"},{"hologram":{"x":1},"mediaType":"x/y"}]}}}`,
			`{"artifactUpdate":{"artifact":{"artifactId":"a","parts":[{"text":"hi"},{"text":"[part of an unknown kind x/y]"}]},"contextId":"c","taskId":"t"}}`},
		"two contents, a wrong type, broken bytes and nothing": {`{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"a","data":{"n":1}},{"text":5},{"raw":"***"},{"url":""},{"data":null},null,7]}}`,
			`{"message":{"messageId":"m","parts":[{"text":"a"},{"text":"[part of an unknown kind]"},{"text":"[part of an unknown kind]"},{"text":"[part of an unknown kind]"},{"text":"[part of an unknown kind]"}],"role":"ROLE_AGENT"}}`},
		"a time and a state that nobody reads": {`{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_WORKING","timestamp":"yesterday"},"metadata":[]}}`,
			`{"statusUpdate":{"status":{"state":"TASK_STATE_WORKING"},"taskId":"t"}}`},
		"holes":                          {`{"task":{"id":7,"status":null,"artifacts":[null,{"parts":{}}],"history":"x"}}`, `{"task":{"artifacts":[{}]}}`},
		"a task alone":                   {`{"id":"t","status":{"state":"TASK_STATE_WORKING"},"artifacts":[{"artifactId":"a","parts":[{}]}]}`, `{"artifacts":[{"artifactId":"a","parts":[{"text":"[part of an unknown kind]"}]}],"id":"t","status":{"state":"TASK_STATE_WORKING"}}`},
		"two kinds":                      {`{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_WORKING"}},"task":{"id":"t","status":{"state":"TASK_STATE_COMPLETED"}}}`, `{"task":{"id":"t","status":{"state":"TASK_STATE_COMPLETED"}}}`},
		"large numbers stay as they are": {`{"message":{"messageId":1,"parts":[{"data":{"n":12345678901234567890.5}}]}}`, `{"message":{"parts":[{"data":{"n":12345678901234567890.5}}]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			require.JSONEq(t, c.want, read(t, "application/json", c.in))
			require.JSONEq(t, `{"jsonrpc":"2.0","id":"1","result":`+c.want+`}`, read(t, "application/json", `{"jsonrpc":"2.0","id":"1","result":`+c.in+`}`))
			streamed := read(t, "text/event-stream; charset=utf-8", ": hello\n\nid: 7\ndata: "+c.in+"\n\n")
			require.True(t, strings.HasPrefix(streamed, ": hello\nid: 7\ndata: "), streamed)
			require.JSONEq(t, c.want, strings.TrimPrefix(streamed, ": hello\nid: 7\ndata: "))
		})
	}
	for name, body := range map[string]string{
		"well":                `{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"a"}]}}`,
		"an error of JSONRPC": `{"jsonrpc":"2.0","id":"1","error":{"code":-32001,"message":"no"}}`,
		"an error":            `{"error":{"code":404,"message":"no"}}`,
		"another answer":      `{"tasks":[],"nextPageToken":""}`,
		"protocol 0.3":        `{"jsonrpc":"2.0","id":"1","result":{"kind":"task","id":"t","status":{"state":"working"},"artifacts":[{"artifactId":"a","parts":[{"kind":"file","file":{"uri":"https://x.test"}}]}]}}`,
		"no JSON":             `{"task":`,
		"no object":           `[1]`,
		"nothing":             `null`,
		"no way to mend":      `{"task":{"id":"t","status":{"state":"x"},"artifacts":[{"artifactId":"a","parts":[{"text":"a"}]}],"metadata":{"a":1}},"extra":"x"}`,
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, body, read(t, "application/json", body))
			require.Equal(t, "data: "+body+"\n\n", read(t, "text/event-stream", "data: "+body+"\r\n\r\n"))
		})
	}
	require.Equal(t, ": an event of an unknown kind\n\ndata: {}\n\n", read(t, "text/event-stream", "data: {\"hologramUpdate\":{\"x\":1}}\n\ndata:{}"))
	require.Equal(t, "data: {\ndata: }\n\n", read(t, "text/event-stream", "data: {\ndata: }\n\n"), "an event of several lines")
	require.Equal(t, "<html>", read(t, "text/html", "<html>"))
	require.JSONEq(t, `{"jsonrpc":"2.0","id":"","error":{"code":-32001,"message":"no"}}`,
		read(t, "application/json", `{"jsonrpc":"2.0","id":7,"error":{"code":-32001,"message":"no","data":{"reason":"x"}}}`), "an id and error data in another form")
}

// What follows a failure is not read.
func TestLenientStreamThatFails(t *testing.T) {
	broken := errors.New("broken")
	s := &http.Response{Header: http.Header{}, Body: io.NopCloser(io.MultiReader(strings.NewReader("data: {}\n\ndata: {\"task\":"), iotest.ErrReader(broken)))}
	require.NoError(t, mendResponse(s, true, mend))
	data, err := io.ReadAll(s.Body)
	require.ErrorIs(t, err, broken)
	require.Equal(t, "data: {}\n\n", string(data))
}

// A card is no answer: it is read as it was sent.
func TestCardsAreNotMended(t *testing.T) {
	card := `{"message":{"messageId":"m","parts":[{}]}}`
	resp := must.Get(readable(&http.Request{}, &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(card))}, nil))
	data := must.Get(io.ReadAll(resp.Body))
	require.Equal(t, card, string(data))
}

// events reads a stream as the protocol library does.
func events(stream []byte) iter.Seq[sdk.Event] {
	return func(yield func(sdk.Event) bool) {
		s := &http.Response{Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(stream))}
		_ = mendResponse(s, true, mend)
		data, _ := io.ReadAll(s.Body)
		for event := range bytes.SplitSeq(data, []byte("\n\n")) {
			var r sdk.StreamResponse
			if line, ok := bytes.CutPrefix(event, []byte("data: ")); ok && json.Unmarshal(line, &r) == nil && !yield(r.Event) {
				return
			}
		}
	}
}

// FuzzAnswer: nothing that a peer can send makes an answer panic, what is shown is what
// is said as long as nothing is taken back, and what is kept is bounded.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_SUBMITTED"}}}`,
		`{"artifactUpdate":{"taskId":"t","append":true,"artifact":{"artifactId":"a","parts":[{"text":"one "}]}}}` + "\n" +
			`{"artifactUpdate":{"taskId":"t","artifact":{"artifactId":"a","parts":[{"text":"one two"}]}}}` + "\n" +
			`{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_COMPLETED","message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"done"}]}}}}`,
		`{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"hi"},{"data":{"a":[1]}},{"url":"https://x.test","filename":"f"},{"raw":"aGk="},{"odd":1}]}}`,
		`{"task":null}` + "\n" + `{"statusUpdate":{"status":{"state":"TASK_STATE_ODD"}}}` + "\n" + `{"artifactUpdate":{"artifact":null}}` + "\n" + `{"odd":{}}`,
		`{"statusUpdate":{"taskId":"t","status":{"state":"completed"},"metadata":{"` + Extension + `":{"usage":[{"model":"m","inputTokens":-1},{"inputTokens":2},7,null]}}}}`,
	} {
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, lines []byte, baseline bool) {
		var stream bytes.Buffer
		for line := range bytes.SplitSeq(lines, []byte("\n")) {
			stream.WriteString("data: ")
			stream.Write(line)
			stream.WriteString("\n\n")
		}
		a := answer{limit: 1 << 20}
		shown, gaps := "", 0
		for e := range events(stream.Bytes()) {
			if task, ok := e.(*sdk.Task); ok && baseline && gaps == 0 && task != nil {
				a.excludeLogged(task, []string{a.text(), "one", ""})
				a.excludeTask(task)
			}
			a.add(e)
			shown += a.nextDelta()
			if gaps++; gaps%3 == 0 {
				a.markIncomplete()
			}
		}
		text := a.text()
		if !a.diverged && !a.incomplete && !strings.HasPrefix(string(a.blocks.joined()), shown) {
			t.Fatalf("shown %q, said %q", shown, text)
		}
		for _, u := range a.usage {
			require.GreaterOrEqual(t, u.InputTokens, 0)
			require.LessOrEqual(t, u.InputTokens, maxTokens)
		}
		require.LessOrEqual(t, len(a.usage), maxUsageModels)
		_ = a.tooLarge()
	})
}
