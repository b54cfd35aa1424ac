package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/server"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/session"
)

// noSecret refuses what the test's model says, and quotes it.
var noSecret = agent.Guard{Name: "no-secret", Out: func(_ context.Context, _ *agent.Invocation, text string) error {
	if strings.Contains(text, "日本") {
		return errors.New("a secret: " + text)
	}
	return nil
}}

// peers serves the stand's turns to peers of A2A, and returns the address.
func (s *stand) peers(t *testing.T) string {
	t.Helper()
	verify := must.Get(access.Secrets(map[string]string{stormToken: "ann"}))
	bearer := must.Get(access.Bearer(verify))
	declared := must.Get(a2aserver.Declare(bearer, nil))
	peers := must.Get(a2aserver.NewOn(s.turns, a2aserver.WithAuthenticator(declared)))
	t.Cleanup(func() { require.NoError(t, peers.Close(context.Background())) })
	remote := httptest.NewServer(server.Mux(server.At("", peers)))
	t.Cleanup(remote.Close)
	return remote.URL
}

// TestGuardedTextReachesNoAPI: a streamed text that a guard refuses reaches the clients of no API, not even in
// part, and neither does the guard's error, which quotes it.
func TestGuardedTextReachesNoAPI(t *testing.T) {
	for how, g := range map[string]agent.Guard{"whole": noSecret, "window": noSecret.Window(1)} {
		model := scripted.Always("clerk", scripted.Reply(scripted.Think("I know 日", "本."), scripted.Text("It is ", "日", "本", " indeed.")))
		a := must.Get(llmagent.New("clerk", "You answer.", model, llmagent.WithGuards(g)))
		s := newStand(t, a, session.NewMemory())
		local, remote := s.listen(t), s.peers(t)
		for _, c := range []struct{ base, path, body string }{
			{local, "/api/v1/sessions", `{"id":"s","content":"hello"}`},
			{local, "/v1/chat/completions", `{"model":"clerk","stream":true,"messages":[{"role":"user","content":"hello"}]}`},
			{local, "/v1/responses", `{"model":"clerk","stream":true,"input":"hello"}`},
			{local, "/agui", `{"threadId":"t","runId":"r","state":{},"messages":[{"id":"m1","role":"user","content":"hello"}],"tools":[],"context":[],"forwardedProps":{}}`},
			{remote, "/message:stream", `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hello"}]}}`},
		} {
			t.Run(how+c.path, func(t *testing.T) {
				res, err := post(t.Context(), c.base, c.path, "text/event-stream", c.body)
				answer := fmt.Sprint(err) // of an API that has not begun to stream
				if err == nil {
					defer res.Body.Close()
					data := must.Get(io.ReadAll(res.Body))
					answer = string(data)
				}
				require.NotRegexp(t, `日|本|\\u65e5|\\u672c`, answer)
				require.Contains(t, answer, "tripwire")
			})
		}
	}
}

// BenchmarkFirstWord is the time to the first word of a streamed answer of 200 deltas, one every 20 ms, with a guard
// that holds it and without.
func BenchmarkFirstWord(b *testing.B) {
	card := regexp.MustCompile(`\d{4}[ -]?\d{4}[ -]?\d{4}[ -]?\d{4}`)
	g := agent.Guard{Name: "no-cards", Out: func(_ context.Context, _ *agent.Invocation, text string) error {
		if card.MatchString(text) {
			return errors.New("a card number")
		}
		return nil
	}}
	for _, c := range []struct {
		name   string
		guards []agent.Guard
	}{{"none", nil}, {"unchecked", []agent.Guard{g.StreamUnchecked()}}, {"window_18", []agent.Guard{g.Window(18)}}, {"whole", []agent.Guard{g}}} {
		b.Run(c.name, func(b *testing.B) {
			a := must.Get(llmagent.New("clerk", "You answer.", pouring(func(ctx context.Context, n int) string {
				if n == 200 {
					return ""
				}
				select {
				case <-time.After(20 * time.Millisecond):
				case <-ctx.Done():
				}
				return "word "
			}), llmagent.WithGuards(c.guards...)))
			base := newStand(b, a, session.NewMemory()).listen(b)
			var first time.Duration
			for n := range b.N {
				began := time.Now()
				res := must.Get(post(b.Context(), base, "/api/v1/sessions", "text/event-stream", fmt.Sprintf(`{"id":"s%d","content":"hello"}`, n)))
				for lines := bufio.NewScanner(res.Body); lines.Scan() && !strings.Contains(lines.Text(), `"type":"text"`); {
				}
				first += time.Since(began)
				_, err := io.Copy(io.Discard, res.Body)
				require.NoError(b, err)
				require.NoError(b, res.Body.Close())
			}
			b.ReportMetric(float64(first.Milliseconds())/float64(b.N), "ms-to-first-word")
		})
	}
}
