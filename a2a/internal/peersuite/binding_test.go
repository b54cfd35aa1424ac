package peersuite

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// offers leaves of a card that is fetched only the interfaces of one binding, so that the
// node speaks that one.
type offers struct {
	http.RoundTripper
	binding string
}

func (o offers) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := o.RoundTripper.RoundTrip(req)
	if err != nil || res.StatusCode != http.StatusOK || o.binding == "" || !strings.HasSuffix(req.URL.Path, "agent-card.json") {
		return res, err
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil {
		return nil, err
	}
	var card map[string]any
	if err := json.Unmarshal(body, &card); err != nil {
		return nil, err
	}
	var kept []any
	all, _ := card["supportedInterfaces"].([]any)
	for _, i := range all {
		if i.(map[string]any)["protocolBinding"] == o.binding {
			kept = append(kept, i)
		}
	}
	card["supportedInterfaces"] = kept
	if body, err = json.Marshal(card); err != nil {
		return nil, err
	}
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	res.Header.Del("Content-Length")
	return res, nil
}
