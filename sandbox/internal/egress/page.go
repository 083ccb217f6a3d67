package egress

import (
	"fmt"
	"html"
	"net/http"
	"strings"
)

// refuse reports an attempt that ends here, and tells the client what it may know.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, a *attempt, b *blocked) {
	a.block(b)
	kind, body := page(r.Header.Get("Accept"), b)
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if r.Method == http.MethodConnect {
		h.Set("Connection", "close")
	}
	w.WriteHeader(b.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write([]byte(body)) // the client may have gone
	}
}

// page is what a client sees in place of what it asked for.
func page(accept string, b *blocked) (kind, body string) {
	if !strings.Contains(accept, "text/html") {
		return "text/plain; charset=utf-8", b.text + "\n"
	}
	title := "Not reached"
	if b.refused {
		title = "Not allowed"
	}
	return "text/html; charset=utf-8", fmt.Sprintf("<!DOCTYPE html>\n<title>%s</title>\n<h1>%[1]s</h1>\n<p>%s</p>\n", title, html.EscapeString(b.text))
}

// rawPage is the page as a whole answer, for a connection that no HTTP server holds any more.
func rawPage(b *blocked) string {
	kind, body := page("", b)
	return fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n%s",
		http.StatusForbidden, http.StatusText(http.StatusForbidden), kind, len(body), body)
}

// firstLine is the status in the first line of an answer, without the protocol.
func firstLine(b []byte) string {
	line, _, _ := strings.Cut(string(b[:min(len(b), 200)]), "\r\n")
	_, status, _ := strings.Cut(line, " ")
	return status
}
