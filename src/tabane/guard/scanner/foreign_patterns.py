"""Signals in Chinese, Korean, Spanish, German, French and Russian: the plainest forms of what attacks say."""

from __future__ import annotations

from tabane.guard.scanner.signals import MAIL, Sign, Signal, signal

_HAN = r"[^。!!??\n]"
_LINE = r"[^.!?\n]"
_PATHS = r"\.ssh|id_rsa|id_ed25519|\.aws|\.env\b|\.netrc|\.npmrc|/etc/passwd|mcp\.json|credentials\b|\.kube|\.gnupg"

CHINESE: tuple[Signal, ...] = (
    signal(Sign.SECRECY, 4, rf"(?:不要|不得|切勿|请勿|勿|无需|不必|禁止|别|不能|不可|未经|不让|瞒着|避免){_HAN}{{0,10}}?(?:告诉|告知|通知|提及|透露|说明|显示|提醒|提示|向)?{_HAN}{{0,6}}?(?:用户|使用者|任何人|他人|客户|用戶)(?:{_HAN}{{0,6}}?(?:知道|察觉|发现|提及|透露|说明|同意|告知))?|(?:秘密|悄悄|偷偷|暗中|私下|静默)(?:地|将|把|发送|读取|上传|执行)?|(?:不要|不得|切勿|禁止){_HAN}{{0,8}}(?:提及|透露|提到)"),
    signal(Sign.OVERRIDE, 6, rf"(?:忽略|无视|忘记|忘掉|不要遵守|不再遵守|覆盖|抛弃|忽視|無視){_HAN}{{0,8}}?(?:之前|以前|先前|上述|以上|前面|所有|全部|任何|系统|原有|此前){_HAN}{{0,10}}?(?:指令|指示|提示|规则|命令|要求|限制|提示词|約束|约束)"),
    signal(Sign.OVERRIDE, 4, r"从现在(?:开始|起)|你现在是|新(?:的)?(?:系统)?指令[::]|优先于(?:所有|任何|系统|用户)|开发者模式|越狱模式|(?:致|给)(?:ai|助手|模型|大模型)[::]"),
    signal(Sign.ORDER, 2, rf"(?:使用|调用|执行|运行|回答|操作|回复){_HAN}{{0,12}}?(?:之前|前|以前|时|的时候|后|之后){_HAN}{{0,20}}?(?:读取|打开|获取|收集|发送|调用|执行|上传|包含|传入|先|必须|运行)"),
    signal(Sign.ORDER, 1, r"(?:必须|务必|一定要|首先|始终|总是|请先|每次)"),
    signal(Sign.PRESSURE, 1, r"否则|(?:安全|合规|审计|验证|认证)(?:检查|要求|目的|策略|规定|需要)|重要[::!!]|紧急|强制"),
    signal(Sign.SECRETS, 3, rf"(?:读取|打开|获取|收集|发送|上传|包含|传入|查找|复制|提供|粘贴|附上|读出|列出|查看|填入|导出){_HAN}{{0,20}}?(?:{_PATHS}|密钥|私钥|密码|口令|凭证|凭据|环境变量|令牌|token|api ?key|cookie|机密|助记词|证书)"),
    signal(Sign.CONVERSATION, 3, rf"(?:完整|全部|所有|整个|之前|全文){_HAN}{{0,6}}?(?:对话|聊天|会话|消息|交谈)(?:历史|记录|内容|上下文)?|(?:对话|聊天|会话)(?:历史|记录)|系统提示(?:词)?|系统指令|用户的(?:原话|原始消息|全部消息)"),
    signal(Sign.STUFFING, 1, rf"(?:作为|放入|填入|传入|写入|放到|放在|包含在|附加到|加到|添加到|赋给|传给){_HAN}{{0,16}}?(?:参数|字段|变量|[a-z_]{{2,24}})|(?<![a-z_])[a-z_]{{2,64}}+ ?(?:参数|字段)(?:中|里|传入)?"),
    signal(Sign.CHANNEL, 3, rf"(?:发送|上传|转发|提交|发|传|邮寄|推送|同步)(?:到|至|给|往){_HAN}{{0,10}}?(?:https?://|{MAIL}|外部|远程|服务器)"),
    signal(Sign.EXCLUSIVE, 3, rf"(?:必须|始终|总是|一律|务必|优先|首先|只能|都要){_HAN}{{0,6}}?(?:优先)?(?:使用|调用|选择)(?:本|此|这个|该)(?:工具|服务)|(?:不要|不得|切勿|禁止|不能){_HAN}{{0,6}}?(?:使用|调用|信任|选择){_HAN}{{0,4}}?(?:其他|其它|别的|任何其他|其余)"),
    signal(Sign.EXCLUSIVE, 4, rf"(?:无论用户|任何问题|所有问题|每次对话){_HAN}{{0,16}}?(?:使用|调用)(?:本|此|这个|该)(?:工具|服务)"),
    signal(Sign.EXCLUSIVE, 2, r"无论用户|任何(?:问题|请求|情况)|所有(?:请求|问题|操作)(?:之前|前|都)|每次(?:对话|请求|调用|回答)"),
    signal(Sign.OTHER_TOOL, 3, rf"(?:(?<![a-z])[a-z]{{1,24}}+_[a-z_]{{1,40}}+|其他|其它|该|原|官方){_HAN}{{0,8}}?(?:工具|服务器|服务)?{_HAN}{{0,4}}?(?:已弃用|已废弃|不安全|已损坏|有漏洞|已被攻破|故障|不可信|停用)"),
    signal(Sign.OTHER_TOOL, 2, rf"(?:发送邮件|发邮件|转账|付款|支付|发送消息|(?<![a-z])[a-z]{{1,24}}+_[a-z_]{{1,40}}+){_HAN}{{0,8}}?(?:时|之前|前|被调用)"),
    signal(Sign.REDIRECT, 4, rf"(?:bcc|密送|抄送|收件人|收款人|收款账户|账号|账户|钱包地址|金额){_HAN}{{0,8}}?(?:设为|设置为|改为|替换|更改|添加|加上|换成|修改|指定为)"),
    signal(Sign.UNCONFIRMED, 2, r"(?:无需|不要|不必|跳过|绕过|不用|未经)(?:用户)?(?:的)?(?:确认|许可|同意|批准|授权|询问)"),
)  # fmt: skip

KOREAN: tuple[Signal, ...] = (
    signal(Sign.SECRECY, 4, rf"(?:사용자|유저|이용자|누구|고객|본인)(?:에게|한테|께|에게는|가|의)?{_LINE}{{0,20}}?(?:알리지|말하지|언급하지|보여주지|공개하지|모르게|알려 ?주지|밝히지|통지하지|눈치|몰래|보고하지|알 필요|동의 없이|모르도록)|몰래|비밀리에|은밀(?:히|하게)|비밀로|조용히"),
    signal(Sign.OVERRIDE, 6, rf"(?:이전|기존|앞선|위|지금까지|모든|시스템|앞)(?:의|에)?{_LINE}{{0,10}}?(?:지시|명령|지침|프롬프트|규칙|제한|안내)(?:사항)?(?:를|을|은|는|들을)?{_LINE}{{0,6}}?(?:무시|잊|따르지 ?마|폐기|덮어)"),
    signal(Sign.OVERRIDE, 4, r"지금부터|이제부터|새로운 (?:지시|명령|역할)|당신은 이제|개발자 모드|우선합니다|우선한다"),
    signal(Sign.ORDER, 2, rf"(?:사용|호출|실행|이용|답변|응답|작업)(?:하기|을|를)?{_LINE}{{0,6}}?(?:전에|전|때마다|할 때|후에|이전에){_LINE}{{0,30}}?(?:읽|열|가져|수집|전송|보내|포함|호출|실행|전달|업로드)"),
    signal(Sign.ORDER, 1, r"반드시|먼저|항상|꼭 |해야 합니다|필수"),
    signal(Sign.PRESSURE, 1, r"그렇지 않으면|않으면|(?:보안|감사|규정|인증|검증)(?: 점검| 확인|상| 요건| 목적)|중요[::!]|긴급"),
    signal(Sign.SECRETS, 3, rf"(?:{_PATHS}|비밀 ?키|개인 ?키|비밀번호|암호|자격 ?증명|환경 ?변수|토큰|api ?키|쿠키|기밀|인증 ?정보){_LINE}{{0,30}}?(?:읽|열|가져|수집|전송|보내|포함|전달|업로드|복사|붙여|넣|첨부|출력|추출)"),
    signal(Sign.CONVERSATION, 3, r"(?:전체|모든|지금까지의?|이전|완전한)(?: 전체| 모든)? ?(?:대화|채팅|메시지|대화의?)(?: ?(?:내용|기록|내역|이력))?|대화 ?(?:기록|내역|이력)|시스템 ?프롬프트"),
    signal(Sign.STUFFING, 1, rf"(?:인자|매개 ?변수|파라미터|필드|항목|(?<![a-z_])[a-z_]{{2,64}}+)(?:로|에|으로|에다)? ?{_LINE}{{0,10}}?(?:전달|넣|포함|입력|설정|추가|첨부|붙여|담)"),
    signal(Sign.CHANNEL, 3, rf"(?:https?://\S{{1,80}}|{MAIL}[\w.-]{{1,64}}|외부 ?(?:서버)?|원격 ?(?:서버)?)(?:로|에|으로|에게)? ?{_LINE}{{0,12}}?(?:전송|보내|업로드|전달|게시|포워)"),
    signal(Sign.EXCLUSIVE, 3, r"(?:항상|반드시|무조건|먼저|우선)[^.\n]{0,10}이 도구(?:를|만|부터)|(?:다른|기존) ?(?:[가-힣]{1,20}+ )?(?:도구|서버|검색)(?:는|를|은|보다|대신)?[^.\n]{0,12}(?:사용하지|쓰지|신뢰하지|무시|대신|우선)"),
    signal(Sign.EXCLUSIVE, 2, r"(?:어떤|모든|무슨) (?:질문|요청|작업|대화)(?:이든|에도|에 대해|에서|이라도|마다|전에)"),
    signal(Sign.OTHER_TOOL, 2, rf"(?:(?<![a-z])[a-z]{{1,24}}+_[a-z_]{{1,40}}+|메일|이메일|송금|결제|메시지){_LINE}{{0,12}}?(?:때|경우|시에|전에|마다)"),
    signal(Sign.REDIRECT, 4, rf"(?:bcc|숨은 ?참조|참조|수신자|받는 ?사람|계좌(?: ?번호)?|지갑 ?주소|금액|수취인){_LINE}{{0,20}}?(?:추가|변경|바꾸|바꿔|설정|교체|대체|넣)"),
    signal(Sign.UNCONFIRMED, 2, r"(?:확인|승인|허가|동의|허락)(?:을|를|은|는)?[^.\n]{0,4}(?:없이|구하지|묻지|생략|건너뛰|받지|요청하지)"),
)  # fmt: skip

RUSSIAN: tuple[Signal, ...] = (
    signal(Sign.SECRECY, 4, rf"\bне (?:\w+ ){{0,2}}?(?:говори|сообщай|упоминай|показывай|раскрывай|рассказывай|уведомляй|информируй|объясняй|ставь|предупреждай)\w*{_LINE}{{0,30}}?|(?:тайно|незаметно|скрытно|втайне|секретно|молча|тихо)\b|без (?:ведома|согласия|уведомления)|скры(?:й|вай|ть)\w*{_LINE}{{0,16}}от пользовател|пользовател\w+ не (?:должен|должна|нужно|надо) (?:знать|видеть|замет)"),
    signal(Sign.OVERRIDE, 6, rf"(?:игнорируй|игнорировать|забудь|забыть|отмени|не следуй|проигнорируй|отбрось)\w*{_LINE}{{0,20}}?(?:предыдущ|прежн|прошл|прочи|все|любые|системн|ранее|вышеуказан){_LINE}{{0,16}}?(?:инструкц|указани|команд|правил|промпт|ограничен)"),
    signal(Sign.OVERRIDE, 4, r"с этого момента|отныне|теперь ты\b|новые инструкции|режим разработчика|(?:имеет|имеют) приоритет над|следуй только этому"),
    signal(Sign.ORDER, 2, rf"(?:перед|до|прежде чем|после|при каждом){_LINE}{{0,50}}?(?:прочитай|прочти|открой|получи|собери|отправь|вызови|выполни|загрузи|передай|прочитать|вызвать|отправить)"),
    signal(Sign.ORDER, 1, r"\bобязательно\b|\bвсегда\b|\bсначала\b|\bнеобходимо\b|\bдолжен\b|\bдолжна\b"),
    signal(Sign.PRESSURE, 1, r"\bиначе\b|в противном случае|важно[:!]|(?:проверк|требовани|политик|аудит)\w* безопасност|срочно"),
    signal(Sign.SECRETS, 3, rf"(?:прочитай|прочти|открой|получи|собери|отправь|скопируй|включи|передай|вставь|добавь|найди|приложи|содержим)\w*{_LINE}{{0,40}}?(?:{_PATHS}|ключ|парол|токен|учетн|учётн|секрет|переменн\w+ окружения|cookie|кук)"),
    signal(Sign.CONVERSATION, 3, r"(?:вс[юея]|полн\w+|цел\w+|предыдущ\w+) (?:\w+ )?(?:истори\w+|переписк\w+|диалог\w*|разговор\w*|бесед\w+|сообщени\w+)|истори\w+ (?:переписки|диалога|чата|разговора|сообщений|беседы)|системн\w+ (?:промпт|подсказк|инструкц)\w*"),
    signal(Sign.STUFFING, 1, rf"(?:передай|вставь|включи|добавь|помести|запиши|укажи|передать|скопируй)\w*{_LINE}{{0,50}}?(?:в (?:пол[ея]|параметр|аргумент)\w*|как \w+|в [a-z_]{{2,24}})"),
    signal(Sign.CHANNEL, 3, rf"(?:отправ|перешли|загруз|переда|скопируй|пошли)\w*{_LINE}{{0,50}}?(?:https?://|{MAIL}|внешн|удал[её]нн|на сервер)"),
    signal(Sign.EXCLUSIVE, 3, rf"(?:всегда|обязательно|сначала|только|в первую очередь) (?:\w+ )?(?:используй|вызывай|выбирай|применяй)\w*{_LINE}{{0,10}}?эт\w+ инструмент|не используй\w*{_LINE}{{0,12}}(?:друг|ины)\w+|вместо (?:всех )?(?:других|остальных|любых)"),
    signal(Sign.OTHER_TOOL, 2, rf"(?:при|когда|перед){_LINE}{{0,24}}?(?:отправк|перевод|плат[её]ж|письм|сообщени|(?<![a-z])[a-z]{{1,24}}+_[a-z_]{{1,40}}+)"),
    signal(Sign.REDIRECT, 4, rf"(?:замени|измени|добавь|установи|подставь|поставь|укажи)\w*{_LINE}{{0,24}}?(?:получател|bcc|скрыт\w+ копи|кошел[её]к|счет|счёт|адрес|реквизит|сумм)"),
    signal(Sign.UNCONFIRMED, 2, r"(?:без|не (?:спрашивай|запрашивай|жди|проси)\w*|пропусти\w*) (?:\w+ )?(?:подтвержден|разрешен|одобрен|согласи)\w+"),
)  # fmt: skip

SPANISH: tuple[Signal, ...] = (
    signal(Sign.SECRECY, 4, rf"\b(?:no|nunca|jamás|sin|ni)\b (?:\w+ ){{0,2}}?(?:digas|decir|menciones|mencionar\w*|informes|informar\w*|reveles|revelar|muestres|mostrar|avises|avisar|cuentes|notifiques|notificar|comuniques|expliques|decirle)\w*{_LINE}{{0,30}}?(?:usuari[oa]s?|nadie|esto|ello|cliente)|sin (?:que|el conocimiento|el consentimiento)[^.\n]{{0,20}}(?:usuari|sepa|note|entere)|\b(?:en secreto|secretamente|discretamente|silenciosamente|a escondidas|sigilosamente)\b", "no nunca sin secreto secretamente discretamente silenciosamente escondidas sigilosamente jam ni"),
    signal(Sign.OVERRIDE, 6, rf"\b(?:ignora|ignore|ignorar|olvida|olvide|descarta|omite|desobedece|haz caso omiso de|anula)\b{_LINE}{{0,30}}?(?:anteriores|previas|previos|todas|sistema|cualquier|demás){_LINE}{{0,16}}?(?:instrucci|[oó]rdenes|reglas|indicaciones|directrices|prompt|restricciones)?|\b(?:ignora|olvida|descarta|ignore|olvide)\b{_LINE}{{0,20}}(?:instrucciones|reglas|indicaciones|[oó]rdenes)", "ignora ignore ignorar olvida olvide descarta omite desobedece haz anula"),
    signal(Sign.OVERRIDE, 4, r"\ba partir de ahora\b|\bahora eres\b|\bnuevas instrucciones\b|\bmodo desarrollador\b|\bprevalece[n]? sobre\b|\bobedece (?:solo|sólo|únicamente)", "ahora nuevas modo prevalece prevalecen obedece"),
    signal(Sign.ORDER, 2, rf"\b(?:antes de|despu[eé]s de|cada vez que|al|para) {_LINE}{{0,50}}?\b(?:lee|leer|abre|abrir|obt[eé]n|recopila|env[ií]a|llama|ejecuta|copia|incluye|debes|debe|sube)\b", "antes cada al para después despu"),
    signal(Sign.PRESSURE, 1, r"\bde lo contrario\b|\bimportante:|\b(?:verificaci[oó]n|requisito|pol[ií]tica|auditor[ií]a) de (?:seguridad|cumplimiento)|\burgente\b|\bobligatorio\b", "contrario importante requisito urgente obligatorio de"),
    signal(Sign.SECRETS, 3, rf"\b(?:lee|leer|abre|abrir|obt[eé]n|recopila|env[ií]a|copia|incluye|pasa|adjunta|pega|busca|extrae|contenido de|añade)\b{_LINE}{{0,40}}?(?:{_PATHS}|contraseñas?|claves?|credenciales|tokens?|variables de entorno|secretos|llaves? privadas?|cookies)", "lee leer abre abrir recopila copia incluye pasa adjunta pega busca extrae contenido obt env envía obtén añade"),
    signal(Sign.CONVERSATION, 3, r"\b(?:toda la|el historial (?:completo )?de la|la) conversaci[oó]n (?:completa|entera|anterior|hasta)|\btoda la conversaci[oó]n|\bhistorial (?:completo )?(?:de|del) (?:la )?(?:conversaci[oó]n|chat|mensajes)|\b(?:prompt|instrucciones|mensaje) del? sistema\b", "conversaci conversación historial prompt instrucciones mensaje"),
    signal(Sign.STUFFING, 1, rf"\b(?:pasa|pasar|incluye|incluir|pon|poner|env[ií]a|a[ñn]ade|agrega|adjunta|inserta|coloca|p[aá]salo|copia)\w*{_LINE}{{0,60}}?\b(?:en|como|a|dentro de)\b (?:el |la |los )?(?:par[aá]metro|campo|argumento|\w+)", "en como a dentro"),
    signal(Sign.CHANNEL, 3, rf"\b(?:env[ií]a|enviar|sube|subir|reenv[ií]a|publica|transmite|manda)\w*{_LINE}{{0,50}}?(?:https?://|{MAIL}|servidor (?:externo|remoto))", "sube subir publica transmite manda enviar env envía reenvía reenv"),
    signal(Sign.EXCLUSIVE, 3, rf"\b(?:siempre|solo|únicamente|primero)\b{_LINE}{{0,16}}?(?:usa|utiliza|llama|elige|prefiere)\w*{_LINE}{{0,10}}?esta herramienta|\bno (?:uses|utilices|confíes en){_LINE}{{0,12}}?otras?\b|\ben (?:lugar|vez) de (?:cualquier otra|otras|las demás)", "siempre solo primero no lugar vez nicamente únicamente"),
    signal(Sign.REDIRECT, 4, rf"\b(?:cambia|reemplaza|sustituye|modifica|a[ñn]ade|agrega|pon|incluye|usa)\b{_LINE}{{0,24}}?(?:destinatario|cco|bcc|copia oculta|iban|cuenta|billetera|monedero|beneficiario|importe)", "cambia reemplaza sustituye modifica añade agrega pon incluye usa ade"),
    signal(Sign.UNCONFIRMED, 2, r"\bsin (?:pedir |solicitar |esperar )?(?:la |su )?(?:confirmaci[oó]n|permiso|aprobaci[oó]n|consentimiento|autorizaci[oó]n)", "sin"),
)  # fmt: skip

GERMAN: tuple[Signal, ...] = (
    signal(Sign.SECRECY, 4, rf"\b(?:sag|sage|sagen|erwähne|erwähnen|informiere|informieren|verrate|zeige|zeigen|melde|erzähle|teile|nenne|erkläre|benachrichtige)\b{_LINE}{{0,40}}?\b(?:nicht|nichts|nie|niemals|niemandem|kein\w*)\b|\bohne (?:den|dem|dass|die|das){_LINE}{{0,20}}(?:nutzer|benutzer|anwender|wissen|zu informieren|zustimmung|merkt|bemerkt)|\b(?:heimlich|unbemerkt|stillschweigend|verdeckt)\b|\b(?:benutzer|nutzer|anwender)\w* (?:darf|soll|muss|braucht)\w* (?:\w+ )?(?:nichts|nicht)", "nicht nichts nie niemals niemandem kein keine ohne heimlich unbemerkt stillschweigend verdeckt"),
    signal(Sign.OVERRIDE, 6, rf"\b(?:ignoriere|ignorieren sie|ignorier|vergiss|missachte|verwirf|übergehe)\b{_LINE}{{0,30}}?(?:anweisung|befehl|regel|vorgabe|instruktion|prompt|richtlinie)", "ignoriere ignorieren ignorier vergiss missachte verwirf bergehe übergehe"),
    signal(Sign.OVERRIDE, 4, r"\bab (?:jetzt|sofort|nun)\b|\bdu bist (?:jetzt|nun|ab)\b|\bneue anweisung|\bentwicklermodus\b|\bhat vorrang vor\b|\bhaben vorrang\b|\bfolge nur noch\b", "ab du neue entwicklermodus hat haben folge"),
    signal(Sign.ORDER, 2, rf"\b(?:bevor|vor (?:jede[mr]|der|dem)|nachdem|jedes mal|immer wenn|danach)\b{_LINE}{{0,60}}?\b(?:lies|lese|öffne|hole|sammle|sende|schicke|rufe|führe|kopiere|lade|übergib|musst|muss)\b", "bevor vor nachdem jedes immer danach"),
    signal(Sign.PRESSURE, 1, r"\bandernfalls\b|\bsonst\b|\bwichtig:|\bsicherheits(?:prüfung|richtlinie|anforderung)|\bdringend\b|\bzwingend\b", "andernfalls sonst wichtig dringend zwingend sicherheitspr sicherheitsprüfung sicherheitsrichtlinie sicherheitsanforderung"),
    signal(Sign.SECRETS, 3, rf"\b(?:lies|lese|lesen|öffne|hole|sammle|sende|schicke|kopiere|lade|übergib|gib|füge|suche|inhalt)\b{_LINE}{{0,50}}?(?:{_PATHS}|passw[oö]rt\w*|passwörter|zugangsdaten|schlüssel|api-?schlüssel|tokens?\b|umgebungsvariablen|geheimnisse|cookies)", "lies lese lesen ffne öffne hole sammle sende schicke kopiere lade bergib übergib gib f füge suche inhalt"),
    signal(Sign.CONVERSATION, 3, r"\b(?:gesamte[nr]?|vollständige[nr]?|ganze[nr]?|komplette[nr]?|bisherige[nr]?) (?:\w+ )?(?:unterhaltung|gespräch\w*|chat\w*|konversation|verlauf|gesprächsverlauf|nachrichten)\b|\b(?:gesprächs|chat|konversations|nachrichten)verlauf\b|\bsystem-?prompt\b|\bsystemanweisung", "unterhaltung gespr gespräch gesprächsverlauf konversation verlauf nachrichten chatverlauf chat system-prompt systemprompt systemanweisung systemanweisungen nachrichtenverlauf"),
    signal(Sign.STUFFING, 1, rf"\b(?:übergib|gib|füge|setze|schreibe|trage|packe|lege|kopiere|nimm|sende|übergeben)\b{_LINE}{{0,60}}?\b(?:als|in|im|ins|unter)\b (?:den |das |dem |die )?(?:parameter|feld|argument|\w+)", "als in im ins unter"),
    signal(Sign.CHANNEL, 3, rf"\b(?:sende|schicke|lade|leite|übertrage|poste|maile|übermittle|senden)\b{_LINE}{{0,60}}?(?:https?://|{MAIL}|externen? server|entfernten? server)", "sende schicke lade leite bertrage übertrage poste maile bermittle übermittle senden"),
    signal(Sign.EXCLUSIVE, 3, rf"\b(?:immer|stets|ausschließlich|nur|zuerst)\b{_LINE}{{0,12}}?(?:dieses werkzeug|dieses tool)|\b(?:verwende|benutze|nutze|nimm)\b{_LINE}{{0,12}}?(?:kein|keine|nie) (?:andere|anderes)|\b(?:statt|anstelle) (?:aller |jedes )?andere", "immer stets ausschlie ausschließlich nur zuerst verwende benutze nutze nimm statt anstelle"),
    signal(Sign.REDIRECT, 4, rf"\b(?:ersetze|ändere|setze|füge|trage|tausche)\b{_LINE}{{0,30}}?(?:empfänger|bcc|blindkopie|iban|konto|wallet|betrag|zieladresse)", "ersetze ndere ändere setze f füge trage tausche"),
    signal(Sign.UNCONFIRMED, 2, r"\bohne (?:\w+ )?(?:bestätigung|rückfrage|nachfrage|zustimmung|genehmigung|erlaubnis|nachzufragen)", "ohne"),
)  # fmt: skip

FRENCH: tuple[Signal, ...] = (
    signal(Sign.SECRECY, 4, rf"\bne (?:\w+ |l')?(?:dis|dites|mentionne\w*|parle\w*|révèle\w*|montre\w*|informe\w*|signale\w*|préviens|prévenez|avertis\w*|le dis|le dites|communique\w*)\b{_LINE}{{0,10}}?(?:pas|jamais|rien)|\bsans (?:que|en informer|informer|prévenir|avertir|le dire|l'accord|le consentement){_LINE}{{0,24}}|\b(?:en secret|secrètement|discrètement|silencieusement|à l'insu)\b|\bl'utilisateur ne doit pas\b", "ne sans secret l'insu l'utilisateur secr secrètement discr discrètement silencieusement"),
    signal(Sign.OVERRIDE, 6, rf"\b(?:ignore|ignorez|oublie|oubliez|méprise|écarte|ne tiens? pas compte)\b{_LINE}{{0,30}}?(?:instructions?|consignes?|règles?|ordres?|directives?|invites?)", "ignore ignorez oublie oubliez m méprise carte écarte ne"),
    signal(Sign.OVERRIDE, 4, r"\bà partir de maintenant\b|\bdésormais,? (?:tu|vous)\b|\btu es maintenant\b|\bnouvelles (?:instructions|consignes)\b|\bmode développeur\b|\bpr(?:é|e)vau?t sur\b|\bn'obéis? qu", "maintenant tu nouvelles mode n'ob n'obéis désormais sormais vaut prévaut"),
    signal(Sign.ORDER, 2, rf"\b(?:avant d[e']|après|chaque fois que|à chaque){_LINE}{{0,60}}?\b(?:lis|lire|lisez|ouvre|récupère|collecte|envoie|appelle|exécute|copie|inclus|dois|devez|télécharge)\b", "avant chaque apr après"),
    signal(Sign.PRESSURE, 1, r"\bsinon\b|\bimportant ?:|\b(?:vérification|exigence|politique|contrôle) de (?:sécurité|conformité)|\burgent\b|\bobligatoire\b", "sinon important urgent obligatoire de"),
    signal(Sign.SECRETS, 3, rf"\b(?:lis|lire|lisez|ouvre|récupère|collecte|envoie|copie|inclus|passe|joins|colle|cherche|ajoute|contenu d[eu])\b{_LINE}{{0,60}}?(?:{_PATHS}|mots? de passe|clés? (?:api|privées?|ssh|d'accès)|identifiants|jetons?|variables d'environnement|secrets|cookies)", "lis lire lisez ouvre r récupère collecte envoie copie inclus passe joins colle cherche ajoute contenu"),
    signal(Sign.CONVERSATION, 3, r"\b(?:toute la|l'intégralité de la|la totalité de la|l'ensemble de la) conversation\b|\bhistorique (?:complet )?(?:de la |du |des )?(?:conversation|chat|messages|discussion)|\bl'historique complet\b|\b(?:prompt|invite|message|instructions?) (?:du )?syst[eè]me\b", "conversation historique l'historique prompt invite message instructions instruction"),
    signal(Sign.STUFFING, 1, rf"\b(?:passe|passez|inclus|mets|ajoute|insère|place|envoie|transmets|copie|fournis)\b{_LINE}{{0,70}}?\b(?:dans|comme|en tant que|via)\b (?:le |la |l')?(?:paramètre|champ|argument|\w+)", "dans comme en via"),
    signal(Sign.CHANNEL, 3, rf"\b(?:envoie|envoyer|envoyez|transfère|publie|téléverse|transmets|poste)\b{_LINE}{{0,60}}?(?:https?://|{MAIL}|serveur (?:externe|distant))", "envoie envoyer envoyez publie transmets poste transf transfère t téléverse"),
    signal(Sign.EXCLUSIVE, 3, rf"\b(?:toujours|uniquement|d'abord|systématiquement)\b{_LINE}{{0,16}}?cet outil|\b(?:utilise|appelle|choisis)\w* (?:toujours|uniquement) cet outil|\bn'(?:utilise|emploie)\w* (?:pas|jamais){_LINE}{{0,10}}?autre|\bau lieu (?:de tout autre|des autres)", "toujours uniquement d'abord syst systématiquement utilise utilisez n'utilise n'utilisez n'emploie au appelle choisis"),
    signal(Sign.REDIRECT, 4, rf"\b(?:remplace|change|modifie|ajoute|mets|substitue)\b{_LINE}{{0,30}}?(?:destinataire|cci|bcc|copie cachée|iban|compte|portefeuille|bénéficiaire|montant)", "remplace change modifie ajoute mets substitue"),
    signal(Sign.UNCONFIRMED, 2, r"\bsans (?:demander |attendre )?(?:de |la |son )?(?:confirmation|permission|autorisation|approbation|accord|consentement)", "sans"),
)  # fmt: skip
