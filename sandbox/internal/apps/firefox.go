package apps

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// firefoxProfile is the one profile, below the home directory.
const firefoxProfile = "/.mozilla/firefox/desktop"

// firefoxFiles configure Firefox twice. Policies (https://mozilla.github.io/policy-templates/)
// lie in /etc/firefox, where the ESR of Debian looks too, and hold for every profile.
// Preferences without a policy are in user.js of the prepared profile, with those that
// matter most: a desktop without a sandbox has no /etc of its own.
func (s Setup) firefoxFiles(add func(name, text string)) {
	add("/etc/firefox/policies/policies.json", jsonText(map[string]any{"policies": s.firefoxPolicies()}))
	add(s.home()+"/.mozilla/firefox/profiles.ini", "[General]\nStartWithLastProfile=1\nVersion=2\n\n"+
		"[Profile0]\nName=desktop\nIsRelative=1\nPath=desktop\nDefault=1\n")
	var lines strings.Builder
	prefs := s.firefoxPreferences()
	for _, name := range sortedKeys(prefs) {
		value, err := json.Marshal(prefs[name])
		if err != nil { // strings, numbers and booleans only
			continue
		}
		fmt.Fprintf(&lines, "user_pref(%q, %s);\n", name, value)
	}
	add(s.home()+firefoxProfile+"/user.js", lines.String())
	// The times of a profile that has been used before: what is shown once to new ones is not.
	add(s.home()+firefoxProfile+"/times.json", "{\"created\":1700000000000,\"firstUse\":1700000000000}\n")
}

func (s Setup) firefoxPolicies() map[string]any {
	locked := func(values map[string]any) map[string]any {
		values["Locked"] = true
		return values
	}
	p := map[string]any{
		"DisableAppUpdate":           true,
		"DisableSystemAddonUpdate":   true,
		"ExtensionUpdate":            false,
		"DisableTelemetry":           true,
		"DisableFirefoxStudies":      true,
		"DisableFeedbackCommands":    true,
		"DisableRemoteImprovements":  true,
		"DisableFirefoxAccounts":     true,
		"DisablePocket":              true,
		"DisableDefaultBrowserAgent": true,
		"DisableProfileImport":       true,
		"DisableProfileRefresh":      true,
		// Lists of blocked add-ons and certificates would be fetched through the proxy,
		// which refuses them. What a desktop may reach is the list of allowed hosts.
		"DisableRemoteSettingsAndAcceptSecurityConsequences": true,
		"DontCheckDefaultBrowser":                            true,
		"NoDefaultBookmarks":                                 true,
		"CaptivePortal":                                      false,
		"NetworkPrediction":                                  false,
		"SearchSuggestEnabled":                               false,
		"TranslateEnabled":                                   false,
		"VisualSearchEnabled":                                false,
		"IPProtectionAvailable":                              false,
		"SkipTermsOfUse":                                     true,
		"OverrideFirstRunPage":                               "",
		"OverridePostUpdatePage":                             "",
		"NewTabPage":                                         false,
		"OfferToSaveLogins":                                  false,
		"AutofillAddressEnabled":                             false,
		"AutofillCreditCardEnabled":                          false,
		"HardwareAcceleration":                               false,
		"DisplayBookmarksToolbar":                            "never",
		"PromptForDownloadLocation":                          false,
		"DefaultDownloadDirectory":                           s.home() + "/Downloads",
		"HttpsOnlyMode":                                      "disallowed",
		"Homepage":                                           locked(map[string]any{"StartPage": "none"}),
		"DNSOverHTTPS":                                       locked(map[string]any{"Enabled": false}),
		"EncryptedMediaExtensions":                           locked(map[string]any{"Enabled": false}),
		"EnableTrackingProtection":                           locked(map[string]any{"Value": false}),
		"GenerativeAI":                                       locked(map[string]any{"Enabled": false}),
		"FirefoxSuggest": locked(map[string]any{
			"WebSuggestions": false, "SponsoredSuggestions": false, "ImproveSuggest": false, "OnlineEnabled": false,
		}),
		"FirefoxHome": locked(map[string]any{
			"Search": false, "Weather": false, "TopSites": false, "SponsoredTopSites": false, "Highlights": false,
			"Pocket": false, "Stories": false, "SponsoredPocket": false, "SponsoredStories": false, "Snippets": false,
		}),
		"UserMessaging": locked(map[string]any{
			"WhatsNew": false, "ExtensionRecommendations": false, "FeatureRecommendations": false,
			"UrlbarInterventions": false, "SkipOnboarding": true, "MoreFromMozilla": false, "FirefoxLabs": false,
		}),
		"Proxy": locked(map[string]any{"Mode": "none"}),
	}
	if s.Proxy != "" {
		p["Proxy"] = locked(map[string]any{
			"Mode": "manual", "HTTPProxy": s.Proxy, "SSLProxy": s.Proxy, "UseHTTPProxyForAllProtocols": true,
			"Passthrough": strings.Join(direct(), ", "),
		})
	}
	return p
}

func (s Setup) firefoxPreferences() map[string]any {
	p := map[string]any{
		// First runs: no page, no bar, no question.
		"browser.aboutwelcome.enabled":                                       false,
		"browser.startup.homepage_override.mstone":                           "ignore",
		"startup.homepage_welcome_url":                                       "",
		"startup.homepage_welcome_url.additional":                            "",
		"browser.startup.page":                                               0,
		"browser.startup.homepage":                                           "about:blank",
		"browser.newtabpage.enabled":                                         false,
		"browser.shell.checkDefaultBrowser":                                  false,
		"browser.sessionstore.resume_from_crash":                             false,
		"browser.sessionstore.max_resumed_crashes":                           -1,
		"toolkit.startup.max_resumed_crashes":                                -1,
		"browser.tabs.warnOnClose":                                           false,
		"browser.warnOnQuit":                                                 false,
		"browser.aboutConfig.showWarning":                                    false,
		"browser.rights.3.shown":                                             true,
		"browser.discovery.enabled":                                          false,
		"browser.uitour.enabled":                                             false,
		"browser.translations.enable":                                        false,
		"browser.vpn_promo.enabled":                                          false,
		"browser.ml.enable":                                                  false,
		"browser.ml.chat.enabled":                                            false,
		"browser.toolbars.bookmarks.visibility":                              "never",
		"datareporting.policy.dataSubmissionEnabled":                         false,
		"datareporting.policy.dataSubmissionPolicyBypassNotification":        true,
		"termsofuse.bypassNotification":                                      true,
		"trailhead.firstrun.didSeeAboutWelcome":                              true,
		"browser.newtabpage.activity-stream.asrouter.userprefs.cfr.addons":   false,
		"browser.newtabpage.activity-stream.asrouter.userprefs.cfr.features": false,
		"messaging-system.rsexperimentloader.enabled":                        false,
		"ui.prefersReducedMotion":                                            1,

		// What would be asked of the network without anybody's wish.
		"app.normandy.enabled":                     false,
		"app.shield.optoutstudies.enabled":         false,
		"app.update.auto":                          false,
		"toolkit.telemetry.enabled":                false,
		"toolkit.telemetry.unified":                false,
		"toolkit.telemetry.server":                 "",
		"toolkit.telemetry.archive.enabled":        false,
		"datareporting.healthreport.uploadEnabled": false,
		"datareporting.usage.uploadEnabled":        false,
		"breakpad.reportURL":                       "",
		"browser.tabs.crashReporting.sendReport":   false,
		"network.captive-portal-service.enabled":   false,
		"network.connectivity-service.enabled":     false,
		// The proxy refuses what hides a server's name, and what only pretends to.
		"security.tls.ech.grease_probability":                     0,
		"network.dns.echconfig.enabled":                           false,
		"network.dns.http3_echconfig.enabled":                     false,
		"network.dns.disablePrefetch":                             true,
		"network.prefetch-next":                                   false,
		"network.predictor.enabled":                               false,
		"network.http.speculative-parallel-limit":                 0,
		"browser.places.speculativeConnect.enabled":               false,
		"browser.urlbar.speculativeConnect.enabled":               false,
		"browser.urlbar.suggest.searches":                         false,
		"browser.urlbar.quicksuggest.enabled":                     false,
		"browser.search.suggest.enabled":                          false,
		"browser.search.update":                                   false,
		"browser.search.serpEventTelemetryCategorization.enabled": false,
		"browser.region.network.url":                              "",
		"browser.region.update.enabled":                           false,
		"geo.enabled":                                             false,
		"geo.provider.network.url":                                "",
		"network.trr.mode":                                        5,
		"doh-rollout.disable-heuristics":                          true,
		"services.settings.server":                                "http://localhost:1/v1",
		"services.sync.enabled":                                   false,
		"identity.fxaccounts.enabled":                             false,
		"dom.push.enabled":                                        false,
		"dom.push.connection.enabled":                             false,
		"dom.push.serverURL":                                      "",
		"browser.safebrowsing.malware.enabled":                    false,
		"browser.safebrowsing.phishing.enabled":                   false,
		"browser.safebrowsing.blockedURIs.enabled":                false,
		"browser.safebrowsing.downloads.enabled":                  false,
		"browser.safebrowsing.downloads.remote.enabled":           false,
		"browser.safebrowsing.passwords.enabled":                  false,
		"browser.safebrowsing.update.enabled":                     false,
		"browser.safebrowsing.provider.google.updateURL":          "",
		"browser.safebrowsing.provider.google4.updateURL":         "",
		"browser.safebrowsing.provider.google5.updateURL":         "",
		"browser.safebrowsing.provider.mozilla.updateURL":         "",
		"privacy.trackingprotection.enabled":                      false,
		"privacy.trackingprotection.pbmode.enabled":               false,
		"extensions.update.enabled":                               false,
		"extensions.update.autoUpdateDefault":                     false,
		"extensions.systemAddon.update.enabled":                   false,
		"extensions.systemAddon.update.url":                       "",
		"extensions.getAddons.cache.enabled":                      false,
		"extensions.getAddons.showPane":                           false,
		"extensions.blocklist.enabled":                            false,
		"extensions.htmlaboutaddons.recommendations.enabled":      false,
		"extensions.pocket.enabled":                               false,
		"media.gmp-manager.updateEnabled":                         false,
		"media.gmp-manager.url":                                   "data:text/plain,",
		"media.gmp-gmpopenh264.enabled":                           false,
		"media.gmp-widevinecdm.enabled":                           false,
		// Revocation would be asked of the certificate's authority, at a host of its own.
		"security.OCSP.enabled":                           0,
		"security.remote_settings.crlite_filters.enabled": false,
		"security.remote_settings.intermediates.enabled":  false,
		"security.certerrors.mitm.priming.enabled":        false,
		"dom.private-attribution.submission.enabled":      false,
		"nimbus.telemetry.targetingContextEnabled":        false,

		// WebRTC goes through the proxy or not at all.
		"media.peerconnection.ice.proxy_only": true,
		"gfx.webrender.software":              true,
		"layers.acceleration.disabled":        true,
		"network.proxy.type":                  0,
	}
	if host, port, err := s.proxyHostPort(); err == nil {
		p["network.proxy.type"] = 1
		p["network.proxy.http"], p["network.proxy.http_port"] = host, port
		p["network.proxy.ssl"], p["network.proxy.ssl_port"] = host, port
		p["network.proxy.share_proxy_settings"] = true
		p["network.proxy.no_proxies_on"] = strings.Join(direct(), ", ")
	}
	return p
}

// jsonText is a value as an indented JSON file, its keys sorted.
func jsonText(v any) string {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil { // maps of strings, numbers and booleans only
		return "{}\n"
	}
	return string(data) + "\n"
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
