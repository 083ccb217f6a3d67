package apps

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// officeProfile is the user's profile, below the home directory.
const officeProfile = "/.config/libreoffice/4/user"

// officeItem is one value of LibreOffice's registry. The names are those of its schema
// (https://opengrok.libreoffice.org/xref/core/officecfg/registry/schema/).
type officeItem struct{ path, name, value string }

// libreOfficeFiles are the user's registry, and the bootstrap settings of /etc: no picture
// while it starts, no crash dumps, no copies of the profile at each start.
func (s Setup) libreOfficeFiles(add func(name, text string)) {
	const (
		misc     = "/org.openoffice.Office.Common/Misc"
		product  = "/org.openoffice.Setup/Product"
		inet     = "/org.openoffice.Inet/Settings"
		recovery = "/org.openoffice.Office.Recovery/"
		never    = "4102444800" // seconds since 1970, in the year 2100
	)
	items := []officeItem{
		{misc, "FirstRun", "false"},
		{misc, "ShowTipOfTheDay", "false"},
		{misc, "CrashReport", "false"},
		{misc, "PerformFileExtCheck", "false"},
		{"/org.openoffice.Setup/Office", "ooSetupInstCompleted", "true"},
		{product, "WhatsNew", "false"},
		{product, "WhatsNewDialog", "false"},
		{product, "LastTimeGetInvolvedShown", never},
		{product, "LastTimeDonateShown", never},
		{recovery + "RecoveryInfo", "Enabled", "false"},
		{recovery + "RecoveryInfo", "CrashReporterEnabled", "false"},
		{recovery + "AutoSave", "Enabled", "false"},
		{"/org.openoffice.Office.Java/VirtualMachine", "Enable", "false"},
		{"/org.openoffice.Office.Common/VCL", "DisableOpenGL", "true"},
	}
	if host, port, err := s.proxyHostPort(); err == nil {
		n := strconv.Itoa(port)
		items = append(items,
			// Without a scheme LibreOffice 7.4 fails before it connects to anything.
			officeItem{inet, "ooInetProxyType", "2"}, // of its own, neither none (0) nor the system's (1)
			officeItem{inet, "ooInetHTTPProxyName", "http://" + host}, officeItem{inet, "ooInetHTTPProxyPort", n},
			officeItem{inet, "ooInetHTTPSProxyName", "http://" + host}, officeItem{inet, "ooInetHTTPSProxyPort", n},
			officeItem{inet, "ooInetNoProxy", strings.Join(direct(), ";")})
	} else {
		items = append(items, officeItem{inet, "ooInetProxyType", "0"})
	}
	// A profile of another build, or of none, has its caches of extensions removed and the
	// office started a second time.
	if id := s.officeBuild(); id != "" {
		items = append(items, officeItem{"/org.openoffice.Setup/Office", "LastCompatibilityCheckID", id})
		add(s.home()+officeProfile+"/extensions/buildid", id)
	}
	var b strings.Builder
	b.WriteString(xml.Header + `<oor:items xmlns:oor="http://openoffice.org/2001/registry" ` +
		`xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">` + "\n")
	for _, i := range items {
		fmt.Fprintf(&b, `<item oor:path="%s"><prop oor:name="%s" oor:op="fuse"><value>%s</value></prop></item>`+"\n", i.path, i.name, i.value)
	}
	b.WriteString("</oor:items>\n")
	add(s.home()+officeProfile+"/registrymodifications.xcu", b.String())
	add("/etc/libreoffice/sofficerc", "[Bootstrap]\nCrashDumpEnable=false\nHideEula=1\nLogo=0\nNativeProgress=false\nSecureUserConfig=false\n")
}

// officeBuild is the installed build's identity, "" when there is none.
func (s Setup) officeBuild() string {
	data, err := os.ReadFile(filepath.Join(s.rootDir(), "/usr/lib/libreoffice/program/versionrc"))
	if err != nil {
		return ""
	}
	found := regexp.MustCompile(`(?m)^buildid=([A-Za-z0-9():._-]+)$`).FindSubmatch(data)
	if found == nil {
		return ""
	}
	return string(found[1])
}
