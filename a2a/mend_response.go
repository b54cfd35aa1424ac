package a2a

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// mendResponse replaces the body of a response to a call by one that its binding has mended: a stream event by event, any
// other body as a whole.
func mendResponse(resp *http.Response, isStream bool, mend func(answer []byte) []byte) error {
	if isStream {
		resp.Body = &mendedStream{body: resp.Body, from: bufio.NewReader(resp.Body), mend: mend}
		resp.ContentLength = -1
		return nil
	}
	data, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return err
	}
	if err := checkValues(data); err != nil {
		return err
	}
	if mended := mend(data); mended != nil {
		data = mended
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	return nil
}

// maxValues bounds the number of objects and lists of one answer or event. Each takes at least two bytes on the wire,
// but a hundred or more in memory.
const maxValues = 1 << 18

// checkValues refuses data that would take far more memory than its length suggests. It also counts braces within
// strings; no ordinary text comes near the limit.
func checkValues(data []byte) error {
	if len(data) > maxValues && bytes.Count(data, []byte("{"))+bytes.Count(data, []byte("[")) > maxValues {
		return fmt.Errorf("%w of %d objects and lists", errTooLarge, maxValues)
	}
	return nil
}

// mendedStream is a stream of server-sent events that are mended one at a time. It buffers one event; the body is
// bounded.
type mendedStream struct {
	body   io.ReadCloser
	from   *bufio.Reader
	mend   func(event []byte) []byte
	line   []byte
	data   []byte // of the current event
	isData bool   // the event has a data field, which may be empty
	out    bytes.Buffer
	err    error
}

func (s *mendedStream) Read(p []byte) (int, error) {
	for s.out.Len() == 0 {
		if s.err != nil {
			return 0, s.err
		}
		s.next()
	}
	return s.out.Read(p)
}

func (s *mendedStream) Close() error { return s.body.Close() }

// next reads a line, and writes the event that it completes.
func (s *mendedStream) next() {
	s.line = s.line[:0]
	for {
		part, err := s.from.ReadSlice('\n')
		s.line = append(s.line, part...)
		if err == bufio.ErrBufferFull {
			continue
		}
		s.err = err
		break
	}
	line := bytes.TrimRight(s.line, "\r\n")
	switch rest, isData := bytes.CutPrefix(line, []byte("data:")); {
	case isData:
		if s.isData {
			s.data = append(s.data, '\n')
		}
		s.data, s.isData = append(s.data, bytes.TrimPrefix(rest, []byte(" "))...), true
	case len(line) > 0:
		s.out.Write(s.line)
	}
	if ended := s.err == io.EOF || s.err == nil && len(line) == 0; s.isData && ended {
		s.event(s.data)
		s.data, s.isData = s.data[:0], false
	}
}

// event mends a complete event and writes it.
func (s *mendedStream) event(data []byte) {
	if err := checkValues(data); err != nil {
		s.err = err
		return
	}
	if data = s.mend(data); data == nil {
		s.out.WriteString(": an event of an unknown kind\n\n")
		return
	}
	for part := range bytes.SplitSeq(data, []byte("\n")) {
		s.out.WriteString("data: ")
		s.out.Write(part)
		s.out.WriteByte('\n')
	}
	s.out.WriteByte('\n')
}
