package a2a

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// lenient has the body of a response to a call read as its binding mends it: a stream
// event by event, any other body as a whole.
func lenient(resp *http.Response, isStream bool, mend func(answer []byte) []byte) error {
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

// maxValues bounds the objects and lists of one answer, or one event: two bytes each as
// they are sent, and a hundred and more once they are read.
const maxValues = 1 << 18

// checkValues refuses what would take up far more memory than its length says. Braces
// within texts count too; no text comes near the bound.
func checkValues(data []byte) error {
	if len(data) > maxValues && bytes.Count(data, []byte("{"))+bytes.Count(data, []byte("[")) > maxValues {
		return fmt.Errorf("%w of %d objects and lists", errTooLarge, maxValues)
	}
	return nil
}

// mendedStream is a stream of server-sent events whose events are mended. It holds one
// event at a time; what it reads from is bounded.
type mendedStream struct {
	body   io.ReadCloser
	from   *bufio.Reader
	mend   func(event []byte) []byte
	line   []byte
	data   []byte // of the event that is being read
	isData bool   // the event has data, which may be empty
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

// next reads a line.
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

// event writes an event that is whole.
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
