package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/llm/openai/endpoint"
	"github.com/agentarbor/arbor/llm/scripted"
)

// sick is a strict endpoint on loopback that misbehaves at a chosen place for a
// while.
type sick struct {
	fault  *fault
	agent  string // whose requests are answered badly
	server *httptest.Server
	good   http.Handler
	closed net.Conn // its own port is one where nobody listens

	mu       sync.Mutex
	skip     int // requests of the agent that are answered well before
	left     int // requests still to be answered badly; below zero all
	attempts []attempt
	problems []error // violations of the protocol in requests
}

// attempt is a request that was sent, or would have been on a connection.
type attempt struct {
	agent string
	at    time.Time
	body  []byte
	bad   bool
}

func newSick(f *fault, p place, times int) (*sick, error) {
	s := &sick{fault: f, agent: p.agent, skip: p.skip, left: times}
	s.good = endpoint.Handler(endpoint.Models(
		scripted.Func("coordinator", func(*llm.Request) scripted.Answer {
			return scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"billing"}`))
		}),
		scripted.Func("billing", func(req *llm.Request) scripted.Answer {
			if req.Messages[len(req.Messages)-1].Role == llm.RoleTool {
				return scripted.Reply(scripted.Text("It is ", "refunded."))
			}
			return scripted.Reply(scripted.Call("refund", `{"order":1}`))
		}),
	))
	s.server = httptest.NewServer(s)
	conn, err := net.Dial("tcp", s.server.Listener.Addr().String())
	s.closed = conn
	return s, err
}

func (s *sick) close() {
	if s.closed != nil {
		_ = s.closed.Close()
	}
	s.server.Close()
}

// strikes notes an attempt and reports whether it is to go wrong.
func (s *sick) strikes(a attempt) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.agent == s.agent {
		if a.bad = s.skip <= 0 && s.left != 0; a.bad && s.left > 0 {
			s.left--
		}
		s.skip--
	}
	s.attempts = append(s.attempts, a)
	return a.bad
}

// heal ends the misbehaviour and returns the attempts so far.
func (s *sick) heal() []attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := s.attempts
	s.left, s.attempts = 0, nil
	return done
}

// strikesNext reports whether the agent's next request is to go wrong.
func (s *sick) strikesNext(agent string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return agent == s.agent && s.skip <= 0 && s.left != 0
}

// badly marks the requests that the server is to answer badly.
const badly = "X-Badly"

// RoundTrip sends a request. What goes wrong is decided and counted here, where
// requests are sent, and not where they arrive: a client that has timed out may
// have disconnected before.
func (s *sick) RoundTrip(r *http.Request) (*http.Response, error) {
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var head struct{ Model string }
	if err = json.Unmarshal(body, &head); err == nil {
		err = endpoint.CheckBody(body)
	}
	if err != nil {
		s.mu.Lock()
		s.problems = append(s.problems, err)
		s.mu.Unlock()
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	switch bad := s.strikes(attempt{agent: head.Model, at: time.Now(), body: body}); {
	case bad && s.fault.serve == nil:
		r.URL.Host = s.closed.LocalAddr().String()
	case bad:
		r.Header.Set(badly, "yes")
	}
	return s.server.Client().Transport.RoundTrip(r)
}

func (s *sick) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get(badly) == "" {
		s.good.ServeHTTP(w, r)
		return
	}
	var head struct {
		Model  string
		Stream bool
	}
	if err := json.NewDecoder(r.Body).Decode(&head); err != nil {
		return // the client has disconnected
	}
	_, _ = io.Copy(io.Discard, r.Body) // else the server does not see the client go
	b := &breakage{w: w, r: r, streamed: head.Stream, tool: "refund", input: fmt.Sprintf(`{"order":%s}`, wrong)}
	if head.Model == "coordinator" {
		b.tool, b.input = agent.TransferTool, fmt.Sprintf(`{"agent_name":"shipping","reason":%q}`, wrong)
	}
	s.fault.serve(b)
}

// model returns an agent's model at this endpoint. The options of the fault hold
// for requests that go wrong only, so that no good answer is late on a slow
// machine.
func (s *sick) model(name string) (llm.Model, error) {
	opts := []openai.Option{openai.WithBaseURL(s.server.URL + "/v1"), openai.WithRetryDelay(0, 0), openai.WithHTTPClient(&http.Client{Transport: s})}
	well, err := openai.New(name, opts...)
	if err != nil || s.fault.opts == nil {
		return well, err
	}
	ill, err := openai.New(name, append(opts, s.fault.opts...)...)
	return sickModel{well, ill, s}, err
}

type sickModel struct {
	llm.Model
	ill llm.Model
	s   *sick
}

func (m sickModel) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	if m.s.strikesNext(m.Name()) {
		return m.ill.Generate(ctx, req)
	}
	return m.Model.Generate(ctx, req)
}
