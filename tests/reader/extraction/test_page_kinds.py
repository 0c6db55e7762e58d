"""Kinds of pages: what stands before the content is recognized, and content about it is not."""

from __future__ import annotations

import pytest

from tabane.reader.extraction.article import extract

SITE = "https://www.shop.test/things/1"
STORY = "".join(
    f"<p>In the {number} chapter of this report we describe how the ferry crossed the strait, who "
    "was on board, "
    "and why the harbor had been closed for a week before the storm reached the northern islands.</p>"
    for number in ("first", "second", "third", "fourth", "fifth", "sixth")
)
NEWS = (
    "<p>本紙の取材によると、市は来年度から図書館の開館時間を延長し、平日の夜間にも利用できるようにする方針を固めた。"
    "職員の配置や費用については、九月の議会で説明する予定である。</p>"
)
MENU = "<nav>" + "".join(f"<a href=/{n}>Section {n}</a> " for n in range(20)) + "</nav>"
BANNER = (
    "<div id=cookie-banner class=cookie-banner><p>We use cookies to improve your experience.</p>"
    "<button>Accept all</button><button>Reject</button></div>"
)


def page(body: str, title: str = "", head: str = "") -> str:
    return f"<!doctype html><html><head><title>{title}</title>{head}</head><body>{body}</body></html>"


def article(text: str, title: str = "A story", head: str = "") -> str:
    return page(
        f"{MENU}<main><article><h1>{title}</h1>{text}</article></main><footer>© Shop</footer>", title, head
    )


PAYWALLED = (
    '<script type="application/ld+json">{"@context": "https://schema.org", "@type": "NewsArticle", '
    '"headline": "A story", "isAccessibleForFree": false}</script>'
)

POSITIVE: list[tuple[str, str, str, str]] = [
    # (name, kind, URL, HTML)
    (
        "cloudflare managed challenge",
        "bot-wall",
        SITE,
        page(
            "<div class=main-wrapper><h1>shop.test</h1><p>Verify you are human by completing the "
            "action below.</p>"
            "<noscript><span id=challenge-error-text>Enable JavaScript and cookies to "
            "continue</span></noscript></div>"
            "<script>(function(){window._cf_chl_opt={cvId:'3',cZone:'shop.test'};}());</script>",
            "Just a moment...",
        ),
    ),
    (
        "cloudflare without text",
        "bot-wall",
        SITE,
        page(
            "<script src='/cdn-cgi/challenge-platform/h/b/orchestrate/chl_page/v1?ray=8a'></script>",
            "Just a moment...",
        ),
    ),
    (
        "cloudflare block",
        "bot-wall",
        SITE,
        page(
            "<h1>Sorry, you have been blocked</h1><h2>You are unable to access shop.test</h2><p>This "
            "website is using a "
            "security service to protect itself from online attacks.</p><p>Cloudflare Ray ID: "
            "8a1b2c3d4e5f6a7b</p>",
            "Attention Required! | Cloudflare",
        ),
    ),
    (
        "cloudflare in Japanese",
        "bot-wall",
        SITE,
        page(
            "<h1>shop.test</h1><p>人間であることを確認します。これには数秒かかる場合があります。</p>"
            "<p>続行する前に、接続のセキュリティを確認する必要があります。</p>",
            "しばらくお待ちください...",
        ),
    ),
    (
        "datadome",
        "bot-wall",
        SITE,
        page(
            "<p id=cmsg>Please enable JS and disable any ad blocker</p><script>var "
            "dd={'rt':'c','cid':'AHr'}</script>"
            "<script src='https://ct.captcha-delivery.com/c.js'></script>",
            "shop.test",
        ),
    ),
    (
        "datadome frame",
        "bot-wall",
        SITE,
        page("<iframe src='https://geo.captcha-delivery.com/captcha/?initialCid=A'></iframe>", "shop.test"),
    ),
    (
        "perimeterx",
        "bot-wall",
        SITE,
        page(
            "<div class=px-wrap><h1>Access to this page has been denied</h1><p>Press &amp; Hold to "
            "confirm you are a human "
            "(and not a bot).</p><div id=px-captcha></div></div>",
            "Access to this page has been denied.",
        ),
    ),
    (
        "akamai denied",
        "bot-wall",
        SITE,
        page(
            '<H1>Access Denied</H1>You don\'t have permission to access "http://www.shop.test/" on '
            "this server.<P>"
            "Reference #18.5c1d1202.1700000000.1a2b3c4d<P>https://errors.edgesuite.net/18.5c1d1202",
            "Access Denied",
        ),
    ),
    (
        "akamai challenge",
        "bot-wall",
        SITE,
        page("<div id=sec-if-cpt-container></div><script src=/a.js></script>"),
    ),
    (
        "imperva frame",
        "bot-wall",
        SITE,
        page(
            '<iframe id="main-iframe" '
            'src="/_Incapsula_Resource?SWUDNSAI=31&xinfo=9-1-0&incident_id=12-34&edet=12">'
            "Request unsuccessful. Incapsula incident ID: 12-34</iframe>"
        ),
    ),
    (
        "aws waf",
        "bot-wall",
        SITE,
        page(
            "<div id=challenge-container></div><script>window.gokuProps={key:'A',iv:'B'};</script>"
            "<script src='https://1.token.awswaf.com/1/challenge.js'></script>",
            "Human Verification",
        ),
    ),
    (
        "anubis",
        "bot-wall",
        SITE,
        page(
            "<h1>Making sure you're not a bot!</h1><p>Loading...</p><p>You are seeing this because "
            "the administrator of this "
            "website has set up Anubis to protect the server.</p><script id=anubis_challenge "
            "type=application/json>{}</script>",
            "Making sure you're not a bot!",
        ),
    ),
    (
        "vercel",
        "bot-wall",
        SITE,
        page(
            "<p>We're verifying your browser</p><p>Website owner? Click here to fix</p><p>Vercel "
            "Security Checkpoint</p>",
            "Vercel Security Checkpoint",
        ),
    ),
    (
        "ddos-guard",
        "bot-wall",
        SITE,
        page(
            "<h1>Checking your browser before accessing shop.test</h1><p>Please allow up to 5 seconds…</p>"
            "<p>DDoS protection by DDoS-Guard</p>",
            "DDOS-GUARD",
        ),
    ),
    (
        "hcaptcha page",
        "bot-wall",
        SITE,
        page(
            "<p>Please complete the security check to access the site.</p><form method=post><div "
            "class=h-captcha></div>"
            "<input type=submit value=Continue></form><script "
            "src='https://js.hcaptcha.com/1/api.js'></script>",
            "shop.test",
        ),
    ),
    (
        "recaptcha page of a search engine",
        "bot-wall",
        "https://www.engine.test/sorry/index",
        page(
            "<form id=captcha-form action=index method=post><div id=recaptcha "
            "class=g-recaptcha></div></form><p>Our systems have "
            "detected unusual traffic from your computer network. This page checks to see if it's "
            "really you sending the "
            "requests, and not a robot.</p>",
            "https://www.engine.test/search?q=tea",
        ),
    ),
    (
        "robot check of a shop",
        "bot-wall",
        SITE,
        page(
            "<h4>Enter the characters you see below</h4><p>Sorry, we just need to make sure you're "
            "not a robot.</p>"
            "<form method=get action=/errors/validateCaptcha><input type=text name=field-keywords></form>",
            "Robot Check",
        ),
    ),
    (
        "pardon our interruption",
        "bot-wall",
        SITE,
        page(
            "<h1>Pardon Our Interruption...</h1><p>As you were browsing something about your browser "
            "made us think you were a "
            "bot. There are a few reasons this might happen:</p><ul><li>You're a power user</li></ul>",
            "Pardon Our Interruption",
        ),
    ),
    (
        "f5",
        "bot-wall",
        SITE,
        page(
            "The requested URL was rejected. Please consult with your administrator.<br><br>Your "
            "support ID is: 1234567890",
            "Request Rejected",
        ),
    ),
    (
        "kasada",
        "bot-wall",
        SITE,
        page(
            "<script>window.KPSDK={};</script><script src='/149e/ips.js?ak_bmsc_nke=1&KP_UIDz=0a'></script>"
        ),
    ),
    (
        "japanese robot check",
        "bot-wall",
        SITE,
        page(
            "<h1>画像認証</h1><p>不正なアクセスを防ぐため、画像に表示されている文字を入力してください。</p>"
            "<form><img src=captcha.jpg><input type=text><input type=submit value=送信></form>",
            "画像認証",
        ),
    ),
    (
        "japanese block",
        "bot-wall",
        SITE,
        page(
            "<h1>アクセスが制限されています</h1><p>お客様の環境から自動プログラムによるアクセスが検出されたため、"
            "アクセスが制限されました。</p>",
            "アクセス制限",
        ),
    ),
    (
        "japanese i am not a robot",
        "bot-wall",
        SITE,
        page(
            "<p>続けるには、ロボットではないことを確認してください。</p>"
            "<div class=g-recaptcha data-sitekey=x></div>"
            "<script src=https://www.google.com/recaptcha/api.js></script>",
            "確認",
        ),
    ),
    (
        "google consent",
        "consent-wall",
        "https://consent.google.com/ml?continue=https://news.google.com/",
        page(
            "<h1>Before you continue to Google</h1><p>We use cookies and data to deliver and "
            "maintain Google services.</p>"
            "<form><button>Reject all</button></form><form><button>Accept all</button></form>",
            "Before you continue",
        ),
    ),
    (
        "yahoo consent",
        "consent-wall",
        "https://consent.yahoo.com/v2/collectConsent?sessionId=3",
        page(
            "<h1>Yahoo is part of the Yahoo family of brands</h1><p>When you use our sites and apps, "
            "we use cookies to provide "
            "our sites and apps to you.</p><button name=agree>Accept all</button><button>Reject all</button>",
            "Yahoo",
        ),
    ),
    (
        "onetrust as the whole page",
        "consent-wall",
        SITE,
        page(
            "<div id=onetrust-consent-sdk><h2>We value your privacy</h2><p>We and our partners store "
            "and access information on "
            "a device, such as cookies.</p><button>Accept all</button></div>",
            "Shop",
        ),
    ),
    (
        "didomi as the whole page",
        "consent-wall",
        SITE,
        page(
            "<div id=didomi-host><div id=didomi-popup role=dialog><p>With your agreement, we and our "
            "842 partners use cookies.</p>"
            "<button>Agree</button></div></div><noscript></noscript>",
            "Le Site",
        ),
    ),
    (
        "sourcepoint page",
        "consent-wall",
        "https://www.zeitung.test/cookiewall",
        page(
            "<h1>Willkommen</h1><p>Nutzen Sie unsere Seite mit Werbung und Cookies oder abonnieren Sie.</p>"
            "<button>Akzeptieren und weiter</button><button>Abonnieren</button>",
            "Zeitung",
        ),
    ),
    (
        "cookie wall by title",
        "consent-wall",
        SITE,
        page(
            "<h1>Your privacy choices</h1><p>To use this site you have to accept cookies. We use "
            "cookies for advertising.</p>"
            "<button>Accept</button>",
            "Your privacy choices | Shop",
        ),
    ),
    (
        "japanese cookie wall",
        "consent-wall",
        SITE,
        page(
            "<h1>Cookieの使用に関する同意</h1><p>当サイトではCookieを使用しています。閲覧を続けるにはCookieの使用に同意してください。</p>"
            "<button>同意する</button><button>同意しない</button>",
            "Cookieの使用に関する同意",
        ),
    ),
    (
        "login form",
        "login",
        SITE,
        page(
            "<h1>Sign in</h1><form><label>Email<input type=email></label><label>Password<input "
            "type=password></label>"
            "<button>Sign in</button></form><a href=/forgot>Forgot your password?</a>",
            "Sign in | Shop",
        ),
    ),
    (
        "login by redirect",
        "login",
        "https://www.shop.test/login?next=/orders",
        page(
            f"{MENU}<p>Welcome to the shop. Track your orders and save your favorites.</p>"
            "<form><input type=email><input type=password><button>Go</button></form>",
            "Shop",
        ),
    ),
    (
        "login in two steps",
        "login",
        "https://accounts.engine.test/v3/signin/identifier",
        page(
            "<h1>Sign in</h1><p>Use your account</p><form><input type=email aria-label='Email or "
            "phone'><button>Next</button></form>",
            "Sign in - Accounts",
        ),
    ),
    (
        "members only",
        "login",
        SITE,
        page(
            "<h1>Members area</h1><p>You must be logged in to view this page.</p><a href=/login>Log in</a>",
            "Members",
        ),
    ),
    (
        "wiki login",
        "login",
        "https://wiki.test/Special:Log",
        page("<h1>Login required</h1><p>Please log in to view other pages.</p>", "Login required - Wiki"),
    ),
    (
        "japanese login",
        "login",
        SITE,
        page(
            "<h1>ログイン</h1><form><label>会員ID<input type=text></label>"
            "<label>パスワード<input type=password></label>"
            "<input type=submit value=ログイン></form><a href=/new>新規会員登録</a>",
            "ログイン | 会員サイト",
        ),
    ),
    (
        "japanese login needed",
        "login",
        SITE,
        page(
            "<h1>会員専用ページ</h1><p>このページを閲覧するには、ログインが必要です。</p>"
            "<a href=/login>ログイン</a>",
            "会員専用ページ",
        ),
    ),
    (
        "session expired",
        "login",
        "https://www.bank.test/auth",
        page(
            "<p>Your session has expired. Please sign in again.</p><form><input type=text><input "
            "type=password></form>",
            "Bank",
        ),
    ),
    (
        "age gate",
        "age-gate",
        SITE,
        page(
            "<h1>Are you over 18?</h1><p>You must be 18 or older to enter this site.</p><button>Yes, "
            "enter</button>"
            "<button>No, leave</button>",
            "Age verification",
        ),
    ),
    (
        "birthday",
        "age-gate",
        SITE,
        page(
            "<h2>Please enter your date of birth to "
            "continue</h2><select><option>1990</select><select><option>1</select>"
            "<button>View page</button>",
            "Games",
        ),
    ),
    (
        "japanese age gate",
        "age-gate",
        SITE,
        page(
            "<h1>年齢確認</h1><p>この先は18歳未満の方の閲覧を禁止しています。あなたは18歳以上ですか?</p>"
            "<a class=btn href=/in>はい</a><a class=btn href=/out>いいえ</a>",
            "年齢確認",
        ),
    ),
    (
        "alcohol",
        "age-gate",
        SITE,
        page(
            "<p>You must be of legal drinking age to visit this "
            "site.</p><button>Yes</button><button>No</button>",
            "Brewery",
        ),
    ),
    (
        "soft 404",
        "not-found",
        SITE,
        article(
            "<p>The page you are looking for may have been moved or deleted.</p><a href=/>Back to home</a>",
            "Page not found",
        ),
    ),
    (
        "soft 404 with a number",
        "not-found",
        SITE,
        page(f"{MENU}<h1>404</h1><p>Sorry, the page you requested does not exist.</p>", "404 - Shop"),
    ),
    (
        "soft 404 oops",
        "not-found",
        SITE,
        page(
            "<h1>Oops! Page not found</h1><p>We can't find what you requested. Check the URL.</p>",
            "Not found | Shop",
        ),
    ),
    (
        "japanese soft 404",
        "not-found",
        SITE,
        page(
            f"{MENU}<h1>ページが見つかりません</h1><p>お探しのページは移動または削除された可能性があります。</p>"
            "<a href=/>トップページへ戻る</a>",
            "ページが見つかりません | 会社",
        ),
    ),
    (
        "product gone",
        "not-found",
        SITE,
        article("<p>The requested product does not exist.</p>", "Product not found"),
    ),
    (
        "domain for sale",
        "parked",
        SITE,
        page("<h1>shop.test</h1><p>This domain is for sale. Buy this domain now.</p>", "shop.test"),
    ),
    (
        "parking lander",
        "parked",
        SITE,
        page(
            "<script src='https://img1.wsimg.com/parking-lander/static/js/main.js'></script><p>"
            "Related searches</p>",
            "shop.test",
        ),
    ),
    (
        "nginx",
        "parked",
        SITE,
        page(
            "<h1>Welcome to nginx!</h1><p>If you see this page, the nginx web server is successfully "
            "installed and working.</p>",
            "Welcome to nginx!",
        ),
    ),
    (
        "japanese parked",
        "parked",
        SITE,
        page("<p>このドメインは、お名前サービスで取得されています。</p>", "shop.test"),
    ),
    (
        "subscribe to continue",
        "paywall",
        SITE,
        article(
            "<p>The council voted on Tuesday to close the old bridge for two years, a decision that "
            "traders had opposed.</p>"
            "<div class=wall><h3>Subscribe to continue reading</h3><p>Already a subscriber? Log in</p></div>",
            head=PAYWALLED,
        ),
    ),
    (
        "teaser marked as closed",
        "paywall",
        SITE,
        article(
            "<p>The council voted on Tuesday to close the old bridge for two years, a decision that "
            "traders had opposed.</p>"
            "<p>This article is for subscribers only.</p><button>Subscribe</button>",
            head=PAYWALLED,
        ),
    ),
    (
        "paid post of a newsletter",
        "paywall",
        SITE,
        article(
            STORY[:700]
            + "</p><h2>This post is for paid subscribers</h2><p>Already a paid subscriber? Sign in</p>"
        ),
    ),
    (
        "free trial",
        "paywall",
        SITE,
        article(
            STORY[:700]
            + "</p><h2>Keep reading with a 7-day free trial</h2><p>Subscribe to keep reading this post.</p>"
        ),
    ),
    (
        "member story",
        "paywall",
        SITE,
        article(
            STORY[:700] + "</p><h2>Create an account to read the full story.</h2>"
            "<p>The author made this story available to members only.</p>"
        ),
    ),
    (
        "japanese rest in letters",
        "paywall",
        SITE,
        article(NEWS + "<p>この記事は有料会員限定です。残り1,234文字</p>"),
    ),
    (
        "japanese members",
        "paywall",
        SITE,
        article(NEWS + "<p>この記事は会員限定です。</p><p>続きを読むには会員登録が必要です。</p>"),
    ),
    (
        "japanese paid part",
        "paywall",
        SITE,
        article(NEWS * 2 + "<p>ここから先は有料部分です</p><p>残り: 2,100文字</p>"),
    ),
    (
        "japanese log in for the rest",
        "paywall",
        SITE,
        article(NEWS + "<p>ログインして続きを読む</p>", head=PAYWALLED),
    ),
]

NEGATIVE: list[tuple[str, str, str]] = [
    ("an article", SITE, article(STORY)),
    (
        "about Cloudflare",
        SITE,
        article(
            "<p>Many sites show the words Just a moment while they are checking your browser. Enable "
            "JavaScript and cookies to "
            "continue, it says, and you are to verify you are human.</p>" + STORY,
            "How Cloudflare challenges work",
        ),
    ),
    ("titled like a wall", SITE, article(STORY, "Just a moment...")),
    (
        "about captchas",
        SITE,
        article("<p>The box says: I'm not a robot. Unusual traffic is a cause.</p>" + STORY, "Captcha"),
    ),
    (
        "about DataDome, with its tag",
        SITE,
        article(STORY, "DataDome", "<script src='https://js.datadome.co/tags.js'></script>"),
    ),
    (
        "normal page behind Cloudflare",
        SITE,
        article(
            STORY,
            "News",
            "<script>window['__CF$cv$params']={r:'8a',t:'MTc='};"
            "a.src='/cdn-cgi/challenge-platform/scripts/jsd/main.js'"
            "</script>",
        ),
    ),
    (
        "short normal page behind Cloudflare",
        SITE,
        article(
            "<p>We open at nine.</p>",
            "Hours",
            "<script src='/cdn-cgi/challenge-platform/h/g/scripts/jsd/main.js'></script>",
        ),
    ),
    (
        "normal page behind Imperva",
        SITE,
        article(
            "<p>We open at nine.</p>",
            "Hours",
            "<script src='/_Incapsula_Resource?SWJIYLWA=719d34d31c8e'></script>",
        ),
    ),
    (
        "normal page with AWS WAF",
        SITE,
        article(
            "<p>We open at nine.</p>",
            "Hours",
            "<script src='https://1.token.awswaf.com/1/challenge.js' defer></script>",
        ),
    ),
    (
        "contact form with a captcha",
        SITE,
        page(
            f"{MENU}<h1>Contact us</h1><form><input type=email><textarea></textarea><div "
            "class=g-recaptcha></div>"
            "<button>Send</button></form><p>Prove that you are not a robot.</p>",
            "Contact",
        ),
    ),
    (
        "newsletter with a captcha",
        SITE,
        page(
            "<p>Get our letter.</p><form><input type=email><div class=h-captcha></div></form>", "Newsletter"
        ),
    ),
    (
        "question about a message",
        SITE,
        article(
            "<p>Since yesterday my own site answers 'Access denied' to the monitoring tool. How do I "
            "let it in?</p>"
            "<p>Add its address to the allow list of the firewall.</p>",
            "Access denied to monitoring tool",
        ),
    ),
    (
        "short answer about captchas",
        SITE,
        article("<p>Use a captcha only where bots did harm.</p>", "When to use a captcha?"),
    ),
    (
        "please wait, a song",
        SITE,
        article("<p>A song of 1998, written in a week by two sisters.</p>", "Please wait"),
    ),
    ("about bots", SITE, article("<p>Bots made half of all requests.</p>" + STORY, "Bot traffic in numbers")),
    ("article with a cookie banner", SITE, article(STORY).replace("<body>", f"<body>{BANNER}")),
    (
        "short page with a cookie banner",
        SITE,
        page(
            f"{BANNER}<h1>Opening hours</h1><p>We are open from nine to five on every day but "
            "Sunday, and on holidays from ten to "
            "two. In August the shop is closed for two weeks.</p>",
            "Opening hours",
        ),
    ),
    (
        "cookie policy",
        SITE,
        article(
            "<p>We use cookies. Cookies are small files. You can accept or reject cookies in the "
            "settings.</p>" * 3 + STORY * 2,
            "Cookie policy",
        ),
    ),
    (
        "recipe of cookies",
        SITE,
        article("<p>Bake the cookies for ten minutes. Accept no shortcuts.</p>" + STORY, "Cookies"),
    ),
    (
        "short recipe of cookies",
        SITE,
        article("<p>Bake the cookies for ten minutes, let the cookies cool.</p>", "Cookies"),
    ),
    ("about consent", SITE, article(STORY, "Consent")),
    (
        "japanese about cookies",
        SITE,
        article(NEWS * 3 + "<p>Cookieの使用に同意するかどうかを利用者に尋ねる。</p>", "Cookie規制の動向"),
    ),
    (
        "login form in the header",
        SITE,
        article(STORY).replace(
            "<body>", "<body><form><input type=text><input type=password><button>Log in</button></form>"
        ),
    ),
    (
        "forum with a login box",
        SITE,
        page(
            f"{MENU}<form><input type=password></form>"
            + "".join(f"<h3>Topic {n}</h3><p>Asked by user {n} about ferries.</p>" for n in range(30)),
            "Forum - Index",
        ),
    ),
    (
        "hidden login dialog on a short page",
        SITE,
        page(
            "<div class=modal><form><input type=password></form></div><h1>Hours</h1><p>From nine to "
            "five.</p>",
            "Hours",
        ),
    ),
    (
        "hidden login form",
        SITE,
        page("<form style='display: none'><input type=password></form><p>From nine to five.</p>", "Hours"),
    ),
    (
        "article on logins",
        SITE,
        article("<p>Please log in to continue, says the page.</p>" + STORY, "How to log in"),
    ),
    ("documentation at /login", "https://docs.test/api/login", article(STORY, "Login API")),
    ("comments need a login", SITE, article(STORY + "<p>You must be logged in to post a comment.</p>")),
    (
        "japanese article on logins",
        SITE,
        article(NEWS * 4 + "<p>ログインが必要です、と表示される。</p>", "ログイン画面の作り方"),
    ),
    ("age of a whisky", SITE, article("<p>Eighteen years in oak.</p>" + STORY, "A whisky over 18 years")),
    (
        "shop with age notes",
        SITE,
        article(STORY + "<p>You must be 18 to buy.</p><button>Buy</button>", "Wine"),
    ),
    ("short age note in a menu page", SITE, page(f"{MENU}{MENU}<p>You must be 18 to buy. Enter</p>", "Wine")),
    (
        "what 404 means",
        SITE,
        article(
            "<p>The server cannot find the requested resource. It is the most frequent response code "
            "of the web, and says "
            "nothing about whether the absence is permanent.</p>" + STORY,
            "404 Not Found",
        ),
    ),
    (
        "how to fix page not found",
        SITE,
        article("<p>Look at the rewrite rules first.</p>", "Fix 'page not found' in nginx"),
    ),
    ("japanese about 404", SITE, article(NEWS * 8, "404エラー")),
    ("lost and not found", SITE, article("<p>A novel by a writer of the north.</p>", "Not found")),
    (
        "about domains for sale",
        SITE,
        article("<p>This domain is for sale, said the page.</p>" + STORY, "Domains"),
    ),
    ("nginx documentation", SITE, article(STORY + "<p>Welcome to nginx!</p>" + STORY, "Installing nginx")),
    (
        "about paywalls",
        SITE,
        article(
            "<p>The sites say 'Subscribe to continue reading' after three articles, and readers who "
            "are asked, in a survey of "
            "this year, whether they did subscribe say that they went elsewhere. This article is for "
            "subscribers only, is the "
            "sentence that they remember best of all.</p>" + STORY * 3,
            "Do paywalls work?",
        ),
    ),
    (
        "quote of a paywall within an article",
        SITE,
        article(STORY + "<blockquote>Subscribe to continue reading</blockquote>" + STORY * 2),
    ),
    ("closed by its metadata, but whole", SITE, article(STORY * 4, head=PAYWALLED)),
    (
        "offer at the end of a whole article",
        SITE,
        article(STORY * 12 + "<p>Already a subscriber? Log in</p>"),
    ),
    ("newsletter offer", SITE, article(STORY * 2 + "<p>Subscribe to our newsletter for more.</p>")),
    ("japanese offer", SITE, article(NEWS * 12 + "<p>会員登録はこちら</p>")),
    (
        "japanese on members",
        SITE,
        article(
            "<p>この記事は会員限定の催しを紹介するものではなく、誰でも参加できる行事を集めたものである。"
            + NEWS[3:]
            + NEWS * 6,
            "催し",
        ),
    ),
    ("a short page", SITE, page("<p>Gone fishing.</p>", "Fishing")),
    ("an empty page", SITE, page("")),
    ("a shell of a script", SITE, page("<div id=root></div><script src=/app.js></script>", "App")),
    (
        "a list of links",
        SITE,
        page("".join(f"<li><a href=/{n}>Story {n} of the ferry</a></li>" for n in range(40)), "Stories"),
    ),
]


@pytest.mark.parametrize(
    ("kind", "url", "html"), [each[1:] for each in POSITIVE], ids=[each[0] for each in POSITIVE]
)
def test_what_stands_before_the_content_is_recognized(kind: str, url: str, html: str) -> None:
    found = extract(html, url)
    assert found.kind == kind
    assert found.warnings


@pytest.mark.parametrize(("url", "html"), [each[1:] for each in NEGATIVE], ids=[each[0] for each in NEGATIVE])
def test_content_is_content(url: str, html: str) -> None:
    assert extract(html, url).kind == ""


def test_the_tables_are_long_enough_to_mean_something() -> None:
    assert len(POSITIVE) >= 40
    assert len(NEGATIVE) >= 40
