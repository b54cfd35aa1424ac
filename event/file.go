package event

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// NewFile returns the description of a file. The caller sets its digest and its call. If the media type is "",
// NewFile detects it from the bytes. It returns an error if the name is not one path element of 1 to 255 printable
// bytes, or if the media type is invalid.
func NewFile(name, mediaType string, data []byte) (*File, error) {
	if err := checkFileName(name); err != nil {
		return nil, err
	}
	if mediaType == "" {
		mediaType = http.DetectContentType(data)
	} else {
		given := mediaType
		base, params, err := mime.ParseMediaType(given)
		if mediaType = mime.FormatMediaType(base, params); err != nil || mediaType == "" || len(mediaType) > 255 {
			return nil, fmt.Errorf("the file %s has the invalid media type %.80q: give one such as text/plain", name, given)
		}
	}
	return &File{Name: name, MediaType: mediaType, Size: int64(len(data))}, nil
}

// checkFileName returns an error if a name cannot be a file's name. Names are used on disks and in lines that people
// and models read.
func checkFileName(name string) error {
	odd := func(r rune) bool { return r == '/' || r == '\\' || !unicode.IsPrint(r) }
	switch {
	case name == "" || len(name) > 255 || !utf8.ValidString(name) || strings.ContainsFunc(name, odd):
		return fmt.Errorf("the file name %.80q is invalid: give 1 to 255 bytes of printable characters without / and \\", name)
	case strings.Trim(name, ".") == "" || strings.TrimSpace(name) != name:
		return fmt.Errorf("the file name %q is invalid: it must not consist of dots, and must not start or end with a space", name)
	}
	return nil
}

// FileName returns a valid file name for a name or path of another source: its last element without forbidden
// characters. It returns other if nothing remains.
func FileName(name, other string) string {
	name = strings.ToValidUTF8(name, "")
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name))
	for len(name) > 255 {
		_, n := utf8.DecodeLastRuneInString(name)
		name = strings.TrimSpace(name[:len(name)-n])
	}
	if checkFileName(name) != nil {
		return other
	}
	return name
}

// Check returns an error if the file cannot be stored: the name or the media type is invalid, or the file does not
// have either a digest and a size, or an http or https URL.
func (d *File) Check() error {
	f, err := NewFile(d.Name, d.MediaType, nil)
	if err != nil {
		return err
	}
	sum, digest := strings.CutPrefix(d.Digest, "sha256:")
	digest = digest && len(sum) == 64 && strings.Trim(sum, "0123456789abcdef") == "" && d.Size >= 0
	u, wrong := url.Parse(d.URL)
	address := d.URL != "" && len(d.URL) <= 4096 && wrong == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && d.Size == 0
	if f.MediaType != d.MediaType || digest == (d.URL != "") || address == (d.Digest != "") {
		return errors.New("the file " + d.Name + " needs a normalized media type, and either a digest with a size or an http or https URL")
	}
	return nil
}

// String returns a description such as "report.pdf, application/pdf, 12 kB".
func (d *File) String() string {
	size := fmt.Sprintf("%d bytes", d.Size)
	scale := int64(1)
	for _, unit := range []string{"kB", "MB", "GB"} {
		if scale *= 1000; d.Size >= scale {
			size = fmt.Sprintf("%d %s", (d.Size+scale/2)/scale, unit)
		}
	}
	switch {
	case d.URL != "":
		size = d.URL
	case d.Size == 1:
		size = "1 byte"
	}
	return d.Name + ", " + d.MediaType + ", " + size
}
