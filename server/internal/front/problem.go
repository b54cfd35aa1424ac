package front

import (
	"net/http"
	"strconv"

	"github.com/agentarbor/arbor/event"
)

// problem is the form of a fault in APIs whose protocol does not define one (RFC 9457).
type problem struct {
	Type     string    `json:"type"`
	Title    string    `json:"title"`
	Status   int       `json:"status"`
	Detail   string    `json:"detail"`
	Instance string    `json:"instance,omitempty"`
	Code     string    `json:"code"`
	Problems []Problem `json:"problems,omitempty"`
	Seq      int64     `json:"seq,omitempty"`
}

// FailProblem is a function for [Config].Fail that calls [WriteProblem].
func FailProblem(c *Call, f *Fault) { WriteProblem(c.W, f, c.ID) }

// WriteProblem answers with a fault as application/problem+json. request is the id of the request, or "".
func WriteProblem(w http.ResponseWriter, f *Fault, request string) {
	data := append(event.EncodeJSON(problem{"urn:arbor:" + f.Code, http.StatusText(f.Status), f.Status, f.Detail, request, f.Code, f.Problems, f.Seq}), '\n')
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(data)))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(f.Status)
	_, _ = w.Write(data) // fails only if the client has disconnected
}
