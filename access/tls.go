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

// certificateAge is how old what was read of the files may be.
const certificateAge = time.Minute

// TLSFiles are the PEM files of a server's TLS.
type TLSFiles struct {
	// Cert holds the server's certificate, with those between it and its authority, and Key its key.
	Cert, Key string
	// ClientCA holds the authorities whose certificates prove who a client is; "" asks for none. A
	// client without a certificate is let through, to bring a token instead.
	ClientCA string
	// Logger hears why a renewed file cannot be used; by default nobody does.
	Logger *slog.Logger
}

// Config returns the configuration of a server: TLS 1.2 or later, and HTTP/2. Files that are
// renewed are read again within a minute, while the server runs; if they cannot be used the last
// ones are kept. The error names the file.
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
		Certificates: now.Certificates, // for those who ask whether there is one
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			mu.Lock()
			defer mu.Unlock()
			if time.Since(at) < certificateAge {
				return now, nil
			}
			at = time.Now()
			next, text, err := f.read(read, now)
			if err != nil {
				f.Logger.Warn("the renewed certificate cannot be used; the last one is kept", "error", err)
				return now, nil
			}
			now, read = next, text
			return now, nil
		},
	}, nil
}

// read makes a configuration of the files, unless they are as they were.
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
			return nil, nil, fmt.Errorf("%s holds no certificate in PEM", f.ClientCA)
		}
	}
	return c, texts, nil
}
