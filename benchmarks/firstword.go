package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/runner"
)

// wait asks the endpoint, which says its first word when its time has come.
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

// FirstWord is how long a user waits for the first word of an answer.
type FirstWord struct {
	Who                     string
	Plain, Transfer         time.Duration // medians of turns without a transfer and with one
	PlainMost, TransferMost time.Duration // their 95th percentiles
}

// hear notes that one more delta has reached the user.
func (s *Scenario) hear(pieces *int) {
	if *pieces++; *pieces == 1 {
		s.First = time.Now()
	}
}

// FirstWords measures turns of a new session each, with a model behind HTTP on loopback that takes a time to its first
// token: of all frameworks, and of Arbor when it anticipates the transfer, which in turns without one is in vain.
func FirstWords(ctx context.Context, firstToken time.Duration, turns int) (all []FirstWord, err error) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(firstToken)
		_, _ = io.Copy(w, r.Body)
	}))
	defer server.Close()
	anticipating := Framework{Title: "Arbor, anticipating", New: func(s *Scenario) (System, error) {
		root, err := arborRoot(s)
		if err != nil {
			return nil, err
		}
		a := &arborSystem{scenario: s, root: root, predicts: func(context.Context, runner.Prospect) (string, float64) { return s.Agents[1], 1 }}
		return a, a.Forget()
	}}
	for _, f := range slices.Insert(All(), 1, anticipating) {
		w := FirstWord{Who: f.Title}
		if w.Plain, w.PlainMost, err = firstWord(ctx, f, server.URL, false, turns); err == nil {
			w.Transfer, w.TransferMost, err = firstWord(ctx, f, server.URL, true, turns)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Title, err)
		}
		all = append(all, w)
	}
	return all, nil
}

// firstWord returns the median and the 95th percentile of turns. The first two are not counted.
func firstWord(ctx context.Context, f Framework, endpoint string, transfer bool, turns int) (median, most time.Duration, err error) {
	s := Chain(1, Sentence)
	s.Stream, s.endpoint = true, endpoint
	if !transfer {
		s.answer = func(string) Answer { return answer(Sentence) }
	}
	system, err := f.New(s)
	if err != nil {
		return 0, 0, err
	}
	var took []time.Duration
	for i := range turns + 2 {
		began := time.Now()
		reply, err := system.Turn(ctx, fmt.Sprint("s", i), Message)
		if err == nil && (reply.Text != Sentence || (reply.Agent == s.Agents[1]) != transfer) {
			err = fmt.Errorf("%s answered %q", reply.Agent, reply.Text)
		}
		if err != nil {
			return 0, 0, err
		}
		if i >= 2 {
			took = append(took, s.First.Sub(began))
		}
	}
	slices.Sort(took)
	return took[len(took)/2], took[(len(took)*95-1)/100], system.Forget()
}
