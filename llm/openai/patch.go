package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"

	"github.com/agentarbor/arbor/llm"
)

// stubModel stands for the model in what the library builds. The library
// refuses some parameters for models whose names it knows, rightly or not; the
// endpoint shall decide.
const stubModel = "arbor"

// patch is what the transport changes in a body that the library wrote: the
// model's name, settings whose zero the library leaves out, and content that
// its types cannot express. It changes bytes and parses nothing, so that its
// cost does not depend on how the body is made up.
type patch struct {
	model  string
	nonce  string
	places []place
	tail   []byte // fields for the end of the body
}

// place is a string in the body to be replaced; places are in body order.
type place struct{ find, put []byte }

// placeholder returns a string to give to the library as the value of field,
// in whose place the body will hold value.
func (p *patch) placeholder(field string, value []byte) string {
	return p.placeholderAs(field, field, value)
}

// placeholderAs is placeholder, and renames the field.
func (p *patch) placeholderAs(field, name string, value []byte) string {
	// The nonce never leaves this process, so that nobody can write text that
	// looks like a placeholder.
	mark := fmt.Sprintf("%s-%d", p.nonce, len(p.places))
	p.places = append(p.places, place{
		find: fmt.Appendf(nil, `"%s":"%s"`, field, mark),
		put:  fmt.Appendf(nil, `"%s":%s`, name, value),
	})
	return mark
}

// settings notes what the library would lose (zeros) or refuse.
func (p *patch) settings(s *llm.Settings, maxTokens string) error {
	for _, f := range []struct {
		name  string
		value *float64
	}{{"temperature", s.Temperature}, {"top_p", s.TopP}} {
		if f.value == nil {
			continue
		}
		if math.IsNaN(*f.value) || math.IsInf(*f.value, 0) {
			return fmt.Errorf("%s is %v, which cannot be sent", f.name, *f.value)
		}
		p.tail = fmt.Appendf(p.tail, `,"%s":%s`, f.name, strconv.FormatFloat(*f.value, 'f', -1, 64))
	}
	if s.MaxTokens > 0 {
		p.tail = fmt.Appendf(p.tail, `,"%s":%d`, maxTokens, s.MaxTokens)
	}
	return nil
}

var errPatch = errors.New("the client library writes requests in another way than this package expects")

func (p *patch) apply(body []byte) ([]byte, error) {
	model, err := json.Marshal(p.model)
	if err != nil {
		return nil, err
	}
	rest, ok := bytes.CutPrefix(body, []byte(`{"model":"`+stubModel+`"`))
	if !ok || !bytes.HasSuffix(rest, []byte("}")) {
		return nil, errPatch
	}
	out := make([]byte, 0, len(body)+len(model)+len(p.tail)+64)
	out = append(out, `{"model":`...)
	out = append(out, model...)
	for _, pl := range p.places {
		before, after, ok := bytes.Cut(rest, pl.find)
		if !ok {
			return nil, errPatch
		}
		out = append(append(out, before...), pl.put...)
		rest = after
	}
	out = append(out, rest[:len(rest)-1]...)
	out = append(out, p.tail...)
	return append(out, '}'), nil
}

// doer stands between the library and the network. It patches requests, adds
// what is secret, turns every failure into an *llm.Error with the response's
// headers at hand, and gives the library only what it reads without loss.
type doer struct{ c *client }

func (d doer) Do(req *http.Request) (*http.Response, error) {
	a, ok := req.Context().Value(attemptKey{}).(*attempt)
	if !ok {
		return nil, errors.New("openai: a request without an attempt")
	}
	body, err := io.ReadAll(req.Body)
	if err == nil {
		body, err = a.patch.apply(body)
	}
	if err != nil {
		return nil, d.c.errorf(llm.CodeBadRequest, err, "the request cannot be built: %v", err)
	}
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	req.URL.RawQuery = d.c.query
	req.Header.Set("User-Agent", "arbor")
	if a.stream {
		req.Header.Set("Accept-Encoding", "identity") // compression would hold deltas back
	}
	if d.c.key != "" {
		req.Header.Set("Authorization", "Bearer "+d.c.key)
	}
	for name, values := range d.c.header {
		req.Header[name] = values
	}

	resp, err := d.c.http.Do(req)
	if err != nil {
		return nil, d.c.networkError(err)
	}
	src := &meter{src: resp.Body, a: a, left: d.c.maxBytes}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer resp.Body.Close()
		return nil, d.c.statusError(resp, src)
	}
	a.answered = true
	a.body = newAnswerBody(src, resp.Header.Get("Content-Type"), d.c)
	if a.stream {
		resp.Body = a.body
		return resp, nil
	}
	// The library would drop part of a whole answer, or fail on it; it gets an
	// empty one, and the attempt reads the real one.
	resp.Body = io.NopCloser(bytes.NewReader([]byte("{}")))
	return resp, nil
}
