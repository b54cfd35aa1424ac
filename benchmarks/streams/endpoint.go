package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// pace is the time between two tokens of a stream.
const pace = 100 * time.Millisecond

// mark surrounds the time in a token, which is in nanoseconds.
const mark = "~"

// serveEndpoint serves a scripted model in the formats of OpenAI and Gemini. Each answer has the given number of
// tokens. It prints its address.
func serveEndpoint(tokens string) error {
	n, err := strconv.Atoi(tokens)
	if err != nil {
		return err
	}
	return serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		form, last := `{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"%s"}}]}`,
			`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]"
		if strings.Contains(r.URL.Path, ":streamGenerateContent") {
			form, last = `{"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":"%s"}]}}]}`,
				`{"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":"."}]},"finishReason":"STOP"}]}`
		}
		w.Header().Set("Content-Type", "text/event-stream")
		flusher, begun := http.NewResponseController(w), time.Now()
		for i := range n {
			select {
			case <-r.Context().Done():
				return
			case <-time.After(time.Until(begun.Add(time.Duration(i+1) * pace))):
			}
			fmt.Fprintf(w, "data: "+form+"\n\n", mark+strconv.FormatInt(time.Now().UnixNano(), 10)+mark)
			if flusher.Flush() != nil {
				return
			}
		}
		fmt.Fprintf(w, "data: %s\n\n", last)
	}))
}

// serve serves at a free port of the loopback interface and prints the address.
func serve(h http.Handler) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stdout, "http://%s\n", l.Addr())
	return http.Serve(l, h)
}
