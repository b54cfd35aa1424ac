package cassette

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/agentarbor/arbor/internal/linediff"
	"github.com/agentarbor/arbor/internal/sleep"
)

// Player answers requests from a file, without a network. It is an http.RoundTripper that is safe for concurrent use.
// The zero value is not usable; see [Replay].
type Player struct {
	path string
	pace bool

	mu    sync.Mutex
	tape  []recording
	wrong error
}

type recording struct {
	exchange
	key    string
	played bool
}

// Option configures a [Player].
type Option func(*Player)

// WithPace plays streams at their recorded speed. Without it, the player returns them at once.
func WithPace() Option { return func(p *Player) { p.pace = true } }

// Replay returns a player of a file that a [Recorder] has written. The error says which recording of the file cannot be
// read, and its position.
func Replay(path string, opts ...Option) (*Player, error) {
	all, err := load(path)
	if err != nil {
		return nil, fmt.Errorf("cassette: %w", err)
	}
	p := &Player{path: path, tape: make([]recording, len(all))}
	for i, e := range all {
		key, err := e.Request.key()
		if err == nil {
			err = e.Response.readable()
		}
		if err != nil {
			return nil, fmt.Errorf("cassette: %s: recording %d: %w", path, i+1, err)
		}
		p.tape[i] = recording{exchange: e, key: key}
	}
	for _, opt := range opts {
		opt(p)
	}
	return p, nil
}

func (r *response) readable() error {
	_, err := r.Body.bytes()
	for i := range r.Stream {
		_, e := r.Stream[i].bytes()
		err = errors.Join(err, e)
	}
	return err
}

// Err returns the first request that was not recorded, as a *MismatchError; nil if there was none.
func (p *Player) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wrong
}

// Left returns the number of recordings that were not played.
func (p *Player) Left() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.tape {
		if !r.played {
			n++
		}
	}
	return n
}

// MismatchError reports a request that was not recorded, or was sent more often than recorded.
type MismatchError struct {
	// Path is the path of the file.
	Path string
	// Request is the method, the path and the query.
	Request string
	// Played is the number of recordings of the same request, all of which were played.
	Played int
	// Diff shows how the request differs from the nearest recording that was not played: lines with "-" were recorded,
	// lines with "+" are in the request. It is empty if no recording is left.
	Diff string
}

// Error implements error.
func (e *MismatchError) Error() string {
	again := "; record it again, or send the recorded request"
	switch {
	case e.Played > 0:
		return fmt.Sprintf("cassette %s: %s was recorded %d times and is requested again%s", e.Path, e.Request, e.Played, again)
	case e.Diff == "":
		return fmt.Sprintf("cassette %s: %s was not recorded, and nothing is left to play%s", e.Path, e.Request, again)
	}
	return fmt.Sprintf("cassette %s: %s was not recorded%s; the nearest recording (-) and the request (+):\n%s", e.Path, e.Request, again, e.Diff)
}

// RoundTrip implements http.RoundTripper.
func (p *Player) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := readBody(req)
	if err != nil {
		return nil, err
	}
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	asked, _ := requestOf(req, body)
	answer, err := p.next(&asked)
	if err != nil {
		return refusal(req, err), nil
	}
	if answer.Status == 0 {
		return nil, errors.New(answer.Error)
	}
	res := &http.Response{Status: strconv.Itoa(answer.Status) + " " + http.StatusText(answer.Status), StatusCode: answer.Status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: make(http.Header), Request: req, ContentLength: -1}
	for name, value := range answer.Header {
		res.Header.Set(name, value)
	}
	pieces := answer.Stream
	if answer.Body != nil {
		pieces = []piece{{data: *answer.Body}}
	}
	res.Body = &played{ctx: req.Context(), pieces: pieces, pace: p.pace, cut: answer.Cut}
	return res, nil
}

// next returns the recording of a request and marks it as played.
func (p *Player) next(asked *request) (*response, error) {
	key, err := asked.key()
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	same := 0
	for i := range p.tape {
		r := &p.tape[i]
		switch {
		case r.key != key:
		case r.played:
			same++
		default:
			r.played = true
			return &r.Response, nil
		}
	}
	wrong := &MismatchError{Path: p.path, Request: asked.Method + " " + asked.URL, Played: same}
	if same == 0 {
		wrong.Diff = p.nearest(asked)
	}
	if p.wrong == nil {
		p.wrong = wrong
	}
	return nil, wrong
}

// nearest returns the differences between a request and the recording that differs in the fewest lines.
func (p *Player) nearest(asked *request) (text string) {
	lines, fewest := asked.lines(), -1
	for i := range p.tape {
		if p.tape[i].played {
			continue
		}
		diff, n := linediff.Of(p.tape[i].Request.lines(), lines)
		if fewest < 0 || n < fewest {
			text, fewest = diff, n
		}
	}
	return text
}

// refusal returns the response to a request that was not recorded, in the error format of model endpoints.
func refusal(req *http.Request, err error) *http.Response {
	body, _ := json.Marshal(map[string]any{"error": map[string]string{"message": err.Error(), "type": "invalid_request_error", "code": "not_recorded"}})
	return &http.Response{Status: "400 Bad Request", StatusCode: http.StatusBadRequest, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: req}
}

// played is the body of a recorded response.
type played struct {
	ctx    context.Context
	pieces []piece
	pace   bool
	cut    bool
	rest   []byte
	closed bool
}

func (b *played) Read(p []byte) (int, error) {
	if b.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	for len(b.rest) == 0 {
		if err := b.ctx.Err(); err != nil {
			return 0, err
		}
		if len(b.pieces) == 0 {
			if b.cut {
				return 0, io.ErrUnexpectedEOF
			}
			return 0, io.EOF
		}
		next := b.pieces[0]
		b.pieces = b.pieces[1:]
		if b.pace && next.After > 0 && sleep.For(b.ctx, next.After.duration()) != nil {
			return 0, b.ctx.Err()
		}
		b.rest, _ = next.bytes() // Replay has checked it
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *played) Close() error {
	b.closed = true
	return nil
}

// First returns the path and the body of the first recorded request; path is "" if there is none. It shows which API of
// the endpoint was used.
func (p *Player) First() (path string, body []byte) {
	if len(p.tape) == 0 {
		return "", nil
	}
	r := &p.tape[0].Request
	path, _, _ = strings.Cut(r.URL, "?")
	body, _ = r.Body.bytes() // Replay has checked it
	return path, body
}
