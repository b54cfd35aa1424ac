package access

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificateAge is the time after which the files are read again.
const certificateAge = time.Minute

// TLSFiles are the PEM files of a server's TLS.
type TLSFiles struct {
	// Cert is the file of the server's certificate and its intermediate certificates. Key is the file of its key.
	Cert, Key string
	// ClientCA is the file of the authorities for client certificates, or "" to ask for none. Clients without a certificate
	// can connect, and use a token instead.
	ClientCA string
	// Logger logs why a renewed file is invalid. By default nothing is logged.
	Logger *slog.Logger
}

// Config returns the configuration of a server with TLS 1.2 or later and HTTP/2. It reads renewed files within a minute,
// at a new connection. If renewed files are invalid, it keeps the last valid ones. The error names the invalid file.
func (f TLSFiles) Config() (*tls.Config, error) {
	if f.Cert == "" || f.Key == "" {
		return nil, errors.New("access: TLS needs both a certificate and its key")
	}
	now, read, err := f.read(nil, nil)
	if err != nil {
		return nil, err
	}
	if f.Logger == nil {
		f.Logger = slog.New(slog.DiscardHandler)
	}
	var mu sync.Mutex
	at := time.Now()
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		NextProtos:   now.NextProtos,
		Certificates: now.Certificates, // http.Server.ServeTLS requires a certificate here
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			mu.Lock()
			defer mu.Unlock()
			if time.Since(at) < certificateAge {
				return now, nil
			}
			at = time.Now()
			next, text, err := f.read(read, now)
			if err != nil {
				f.Logger.Warn("the renewed certificate is invalid; the last one is kept", "error", err)
				return now, nil
			}
			now, read = next, text
			return now, nil
		},
	}, nil
}

// read returns a configuration of the files, or last if the files are unchanged.
func (f TLSFiles) read(before [][]byte, last *tls.Config) (*tls.Config, [][]byte, error) {
	var texts [][]byte
	same := last != nil
	for i, path := range []string{f.Cert, f.Key, f.ClientCA} {
		if path == "" {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, err
		}
		texts = append(texts, text)
		same = same && bytes.Equal(text, before[i])
	}
	if same {
		return last, before, nil
	}
	cert, err := tls.X509KeyPair(texts[0], texts[1])
	if err != nil {
		return nil, nil, fmt.Errorf("the certificate %s with the key %s: %w", f.Cert, f.Key, err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, Certificates: []tls.Certificate{cert}}
	if f.ClientCA != "" {
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
		if !c.ClientCAs.AppendCertsFromPEM(texts[2]) {
			return nil, nil, fmt.Errorf("%s contains no PEM certificate", f.ClientCA)
		}
	}
	return c, texts, nil
}
