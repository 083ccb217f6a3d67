package apps

import "strings"

// chromiumFiles configure Chromium by managed policies
// (https://chromeenterprise.google/policies/) and by the flags that Debian's start script
// reads from /etc/chromium.d, where nothing of the host's is. Chromium's own sandbox stays on.
func (s Setup) chromiumFiles(add func(name, text string)) {
	policies := map[string]any{
		"AutofillAddressEnabled":                  false,
		"AutofillCreditCardEnabled":               false,
		"AlternateErrorPagesEnabled":              false,
		"BackgroundModeEnabled":                   false,
		"BookmarkBarEnabled":                      false,
		"BrowserNetworkTimeQueriesEnabled":        false,
		"BrowserSignin":                           0,
		"BuiltInDnsClientEnabled":                 false,
		"ChromeVariations":                        2,
		"CloudPrintProxyEnabled":                  false,
		"ComponentUpdatesEnabled":                 false,
		"DefaultBrowserSettingEnabled":            false,
		"DefaultSearchProviderEnabled":            true,
		"DefaultSearchProviderName":               "DuckDuckGo",
		"DefaultSearchProviderSearchURL":          "https://duckduckgo.com/?q={searchTerms}",
		"EncryptedClientHelloEnabled":             false, // the proxy refuses what hides a server's name
		"DnsOverHttpsMode":                        "off",
		"DnsPrefetchingEnabled":                   false,
		"DomainReliabilityAllowed":                false,
		"DownloadDirectory":                       s.home() + "/Downloads",
		"EnableMediaRouter":                       false,
		"GenAILocalFoundationalModelSettings":     1,
		"GenAiDefaultSettings":                    2,
		"HardwareAccelerationModeEnabled":         false,
		"HideWebStoreIcon":                        true,
		"HomepageIsNewTabPage":                    false,
		"HomepageLocation":                        "about:blank",
		"HttpsOnlyMode":                           "disallowed",
		"HttpsUpgradesEnabled":                    false,
		"LensOverlaySettings":                     1,
		"MetricsReportingEnabled":                 false,
		"NetworkPredictionOptions":                2,
		"NewTabPageLocation":                      "about:blank",
		"NTPCardsVisible":                         false,
		"PasswordManagerEnabled":                  false,
		"PaymentMethodQueryEnabled":               false,
		"PrivacySandboxPromptEnabled":             false,
		"PrivacySandboxAdTopicsEnabled":           false,
		"PrivacySandboxSiteEnabledAdsEnabled":     false,
		"PrivacySandboxAdMeasurementEnabled":      false,
		"PromotionsEnabled":                       false,
		"PromotionalTabsEnabled":                  false,
		"QuicAllowed":                             false,
		"RestoreOnStartup":                        4, // pages that are named
		"RestoreOnStartupURLs":                    []string{"about:blank"},
		"SafeBrowsingProtectionLevel":             0,
		"SafeBrowsingExtendedReportingEnabled":    false,
		"SearchSuggestEnabled":                    false,
		"ShoppingListEnabled":                     false,
		"ShowFullUrlsInAddressBar":                true,
		"SpellCheckServiceEnabled":                false,
		"SyncDisabled":                            true,
		"TranslateEnabled":                        false,
		"UrlKeyedAnonymizedDataCollectionEnabled": false,
		"UserFeedbackAllowed":                     false,
		"WebRtcIPHandling":                        "disable_non_proxied_udp",
		"ProxySettings":                           map[string]any{"ProxyMode": "direct"},
	}
	if s.Proxy != "" {
		policies["ProxySettings"] = map[string]any{
			"ProxyMode":   "fixed_servers",
			"ProxyServer": "http://" + s.Proxy,
			// <-loopback> takes the built-in exceptions away, link-local addresses among
			// them: a try at 169.254.169.254 is to be seen by the proxy too.
			"ProxyBypassList": "<-loopback>;localhost;127.0.0.0/8;[::1]",
		}
	}
	add("/etc/chromium/policies/managed/desktop.json", jsonText(policies))
	add("/etc/chromium.d/desktop", "export CHROMIUM_FLAGS=\"$CHROMIUM_FLAGS "+strings.Join(s.chromiumFlags(), " ")+"\"\n")
}

// chromiumFlags are those switches that have no policy.
func (s Setup) chromiumFlags() []string {
	return []string{
		"--no-first-run",
		"--no-default-browser-check",
		// A password store of the desktop's would be asked to open a keyring.
		"--password-store=basic",
		"--disable-background-networking",
		"--disable-component-update",
		// Components that are fetched on demand are asked for all the same; nobody listens
		// there.
		"--component-updater=url-source=http://localhost:1/,disable-pings",
		"--apps-gallery-update-url=http://localhost:1/",
		"--disable-domain-reliability",
		"--disable-sync",
		"--disable-breakpad",
		"--no-pings",
		// There is no graphics device: what would look for one is not started.
		"--disable-gpu",
		"--disable-features=MediaRouter,OptimizationHints,OptimizationGuideOnDeviceModel,AutofillServerCommunication",
		"--disable-session-crashed-bubble",
		"--hide-crash-restore-bubble",
		"--force-device-scale-factor=" + number(s.scale()),
	}
}
