package a2aconformance

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// rejecting are the rules of what is not accepted (sections 3.3.2, 5.4, 5.7 and 9.5).
func rejecting() []testCase {
	return []testCase{
		{"messages that are none", nil, func(s *suite) {
			ok := message("echo a")["message"].(object)
			without := func(name string) object {
				m := with(ok, "x", 1)
				delete(m, "x")
				delete(m, name)
				return object{"message": m}
			}
			for name, params := range map[string]object{
				"no message": {},
				"no id":      without("messageId"),
				"no role":    without("role"),
				"no parts":   without("parts"),
				"empty":      {"message": with(ok, "parts", []any{})},
				"odd part":   {"message": with(ok, "parts", []any{object{}})},
				"the agent":  {"message": with(ok, "role", "ROLE_AGENT")},
			} {
				s.Run(name, func(t *testing.T) {
					sub := *s
					sub.T = t
					sub.refused(invalidParams, "SendMessage", params)
				})
			}
		}},
		{"requests that are none", nil, func(s *suite) {
			for _, m := range s.b.Malformed {
				var e *Error
				err := m.Do(s.ctx, s.caller())
				require.True(s, errors.As(err, &e), "%s: %v", m.Name, err)
				require.Equal(s, m.Code, e.Code, "%s: %v", m.Name, err)
			}
		}},
		{"names that are not given", nil, func(s *suite) {
			for _, operation := range []string{"GetTask", "CancelTask"} {
				_, err := s.try(operation, object{"id": ""})
				var e *Error
				require.True(s, errors.As(err, &e), "%s: %v", operation, err)
			}
		}},
		{"fields that nobody knows are ignored (section 5.7)", func(_ Target, b Binding) bool { return b.Absence }, func(s *suite) {
			params := message("echo a", object{"futureField": object{"x": 1}})
			params["anotherField"] = []any{1}
			require.Equal(s, "COMPLETED", state(s.task(s.call("SendMessage", params))))
		}},
		{"media types that the agent does not take", func(t Target, _ Binding) bool { return t.BadMediaType != "" }, func(s *suite) {
			params := message("echo a")
			params["message"].(object)["parts"] = []any{object{"text": "echo a"}, object{"raw": "aGVsbG8=", "mediaType": s.BadMediaType, "filename": "x"}}
			s.refused(contentType, "SendMessage", params)
		}},
	}
}

// fetch gets a URL.
func (s *suite) fetch(url string, header http.Header) (*http.Response, []byte) {
	s.Helper()
	req, err := http.NewRequestWithContext(s.ctx, http.MethodGet, url, nil)
	require.NoError(s, err)
	if header != nil {
		req.Header = header
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(s, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	require.NoError(s, err)
	return res, data
}
