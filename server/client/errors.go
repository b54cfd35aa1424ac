package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
)

// ErrUnreachable is wrapped by the error of a server that does not answer, or not any more.
var ErrUnreachable = errors.New("the server cannot be reached")

// Error is what a server answers to a request that it refuses (RFC 9457). With errors.Is it is
// agent.ErrSessionBusy, agent.ErrConflict or agent.ErrBadInput where a runner's would be.
type Error struct {
	Status     int    // of HTTP
	Code       string // such as not_found; "" if what answered was no such server
	Detail     string // for people
	Instance   string // the request's id, which the server's log has too
	Problems   []struct{ Path, Message string }
	Seq        int64         // with position_moved, where the log ends
	RetryAfter time.Duration `json:"-"` // 0 is unknown
}

func (e *Error) Error() string {
	text := e.Detail
	for _, p := range e.Problems {
		text += "; " + strings.TrimPrefix(p.Path+": "+p.Message, ": ")
	}
	return text
}

// Is reports whether the error is one of those of package agent.
func (e *Error) Is(target error) bool {
	busy, conflict := e.Code == "session_busy", slices.Contains([]string{"position_moved", "exists", "turn_over", "deleted"}, e.Code)
	bad := !busy && !conflict && (e.Code == "" || e.Status >= 400 && e.Status < 500 && e.Status != http.StatusTooManyRequests)
	return target == agent.ErrSessionBusy && busy || target == agent.ErrConflict && conflict || target == agent.ErrBadInput && bad
}

// passing reports whether what is wrong may be over in a moment.
func passing(err error) bool {
	var refused *Error
	return errors.Is(err, ErrUnreachable) || errors.As(err, &refused) && slices.Contains([]int{429, 502, 503, 504}, refused.Status)
}

// refusal reads the error of an answer.
func (c *Client) refusal(resp *http.Response) *Error {
	e := &Error{}
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil || json.Unmarshal(data, e) != nil || e.Code == "" || e.Detail == "" {
		e = c.stranger(resp)
	}
	e.Status = resp.StatusCode
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
		e.RetryAfter = time.Duration(min(s, 60)) * time.Second
	}
	return e
}

// stranger is the error of an answer that the API does not have.
func (c *Client) stranger(resp *http.Response) *Error {
	e := &Error{Status: resp.StatusCode, Detail: fmt.Sprintf("what answers at %s is no server of this kind: %s", c.address, resp.Status)}
	if to := resp.Header.Get("Location"); to != "" {
		e.Detail += fmt.Sprintf(", to %.200s", to)
	}
	return e
}

// TurnError is the end of a turn that failed. With errors.Is it is agent.ErrLimit if a limit of the
// turn was reached.
type TurnError struct {
	Code, Message string
	Retryable     bool
	limit         bool
}

func (e *TurnError) Error() string { return strings.TrimPrefix(e.Code+": "+e.Message, ": ") }

// Is reports whether the error is one of those of package agent.
func (e *TurnError) Is(target error) bool { return e.limit && target == agent.ErrLimit }
