package benchmarks

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/runner"
)

var measure = flag.Bool("measure", false, "measure the time to the first word, with a model that takes 300 ms to its first token")

// TestFirstWords prints how long a user waits for the first word of an answer, in turns without a transfer and with one,
// with a model behind HTTP on loopback: of all frameworks, and of Arbor when it anticipates the transfer, which in turns
// without one is in vain. Only with -measure do the times mean something.
func TestFirstWords(t *testing.T) {
	firstToken, turns := time.Millisecond, 2
	if *measure {
		firstToken, turns = 300*time.Millisecond, 20
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(firstToken)
		_, _ = io.Copy(w, r.Body)
	}))
	defer server.Close()
	t.Log("framework | without a transfer, ms | 95 % | with a transfer, ms | 95 % | with / without")
	row := func(title string, build func(*Scenario) (System, error)) {
		ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
		plain, plainMost := firstWord(t, build, server.URL, false, turns)
		transfer, transferMost := firstWord(t, build, server.URL, true, turns)
		require.GreaterOrEqual(t, plain, firstToken, title)
		require.GreaterOrEqual(t, transferMost, transfer, title)
		t.Logf("%s | %.0f | %.0f | %.0f | %.0f | %.2f", title, ms(plain), ms(plainMost), ms(transfer), ms(transferMost), ms(transfer)/ms(plain))
	}
	for _, f := range All() {
		row(f.Title, f.build)
	}
	row("Arbor, anticipating", func(s *Scenario) (System, error) {
		root, err := arborRoot(s)
		if err != nil {
			return nil, err
		}
		a := &arborSystem{scenario: s, root: root, predicts: func(context.Context, runner.Prospect) (string, float64) { return s.Agents[1], 1 }}
		return a, a.Forget()
	})
}

// firstWord returns the median and the 95th percentile of turns of a new session each. The first two are not counted.
func firstWord(t *testing.T, build func(*Scenario) (System, error), endpoint string, transfer bool, turns int) (median, most time.Duration) {
	s := Chain(1, Sentence)
	s.Stream, s.endpoint = true, endpoint
	if !transfer {
		s.answer = func(string) Answer { return answer(Sentence) }
	}
	system, err := build(s)
	require.NoError(t, err)
	var took []time.Duration
	for i := range turns + 2 {
		began := time.Now()
		reply, err := system.Turn(t.Context(), fmt.Sprint("s", i), Message)
		require.NoError(t, err)
		require.Equal(t, Sentence, reply.Text)
		require.Equal(t, transfer, reply.Agent == s.Agents[1])
		if i >= 2 {
			took = append(took, s.First.Sub(began))
		}
	}
	require.NoError(t, system.Forget())
	slices.Sort(took)
	return took[len(took)/2], took[(len(took)*95-1)/100]
}

// wait asks the endpoint, which answers after the time to its first token.
func (s *Scenario) wait(a Answer) Answer {
	resp, err := http.Post(s.endpoint, "text/plain", strings.NewReader(Message))
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		err = errors.Join(err, resp.Body.Close())
	}
	if err != nil {
		return answer("The endpoint failed: " + err.Error())
	}
	return a
}

// hear counts a delta that has reached the user.
func (s *Scenario) hear(pieces *int) {
	if *pieces++; *pieces == 1 {
		s.First = time.Now()
	}
}
