package pack

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
)

// Name returns the name of the snapshot of a kind of thing that belongs to agents; "" if one would be too long.
func Name(kind string, agents ...string) string {
	for _, name := range agents {
		kind += " " + strconv.QuoteToASCII(name)
	}
	if len(kind) > 255 {
		return ""
	}
	return kind
}

// Sum returns 22 characters that stand for texts which are only compared with others. Other texts have another sum.
func Sum(texts ...string) string {
	var b []byte
	for _, s := range texts {
		b = Text(b, s)
	}
	sum := sha256.Sum256(b)
	return base64.RawStdEncoding.EncodeToString(sum[:16])
}
